//! The room that cache entries have in Redis. The counters of the limits share its memory, so
//! entries stop at a ceiling below it. Above the lower ceiling only entries that exist are
//! replaced; above the higher one nothing is published.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::redis::{RedisPool, ServerMemory, ServerReading};
use crate::sync::lock;

/// The shares of a server's memory above which no new entry, and no entry at all, is published.
pub const MAX_FOR_NEW: f64 = 0.70;
const MAX_FOR_ANY: f64 = 0.85;

/// Below this share, the log reports that there is room again. Lower than [`MAX_FOR_NEW`], around
/// which the memory stays while there are more entries than fit.
const ROOM_AGAIN: f64 = 0.60;

/// Interval between two readings of the memory.
const INTERVAL: Duration = Duration::from_secs(10);

/// Interval while no server replies.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The last reading of a server that does not reply counts for so long.
const MAX_AGE: Duration = Duration::from_secs(300);

/// Which entries may be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Publishable {
    Any,
    /// Those that replace another one.
    Replacements,
    Nothing,
}

/// The memory of Redis and what it allows. In a cluster, the fullest server decides.
#[derive(Debug)]
pub struct RedisRoom {
    /// The memory of a server that reports no limit, in bytes.
    default_max: u64,
    /// Number of replicas, which are assumed to publish as much as this one between two readings.
    replicas: u64,
    state: Mutex<RoomState>,
}

#[derive(Debug)]
struct RoomState {
    /// The last reading of each server that tells, and when that was. Limits are above 0.
    servers: HashMap<Arc<str>, (ServerMemory, Instant)>,
    /// The fullest of them, and what was published since. `None` if no server tells.
    fullest: Option<ServerMemory>,
    /// Whether the servers refuse to tell, as the log has reported.
    is_refused: bool,
    /// What was publishable according to the log.
    logged: Publishable,
}

impl RedisRoom {
    /// Without a reading, anything may be published. `default_max`: the memory of a server that
    /// reports no limit, in bytes, above 0; `replicas`: the number of replicas.
    pub fn new(default_max: u64, replicas: u32) -> Self {
        let (servers, logged) = (HashMap::new(), Publishable::Any);
        let state = RoomState { servers, fullest: None, is_refused: false, logged };
        Self { default_max, replicas: replicas.into(), state: Mutex::new(state) }
    }

    /// Reads the memory every ten seconds. Does not return.
    pub async fn watch(&self, pool: &RedisPool) {
        loop {
            let readings = pool.memory().await;
            let has_replies = readings.iter().any(|(_, reading)| reading.is_some());
            let interval = if has_replies { INTERVAL } else { RETRY_INTERVAL };
            self.update(readings, Instant::now());
            sleep(interval).await;
        }
    }

    /// The share of its memory that the fullest server uses; `None` while it is unknown.
    pub fn used_ratio(&self) -> Option<f64> {
        lock(&self.state).fullest.map(ratio)
    }

    /// Which entries may be published now.
    pub(super) fn publishable(&self) -> Publishable {
        lock(&self.state).publishable()
    }

    /// Takes account of a new entry of this size until the next reading.
    pub(super) fn add(&self, bytes: usize) {
        if let Some(fullest) = &mut lock(&self.state).fullest {
            let added = self.replicas.saturating_mul(bytes as u64);
            fullest.used = fullest.used.saturating_add(added);
        }
    }

    /// Takes over the readings of all known servers, `None` of those that do not reply.
    fn update(&self, readings: Vec<ServerReading>, now: Instant) {
        let mut state = lock(&self.state);
        if readings.iter().all(|(_, reading)| reading.is_none()) {
            return;
        }
        let mut before = mem::take(&mut state.servers);
        let mut refusal = None;
        for (name, reading) in readings {
            let known = match reading {
                Some(Ok(ServerMemory { used, max })) => {
                    let max = if max == 0 { self.default_max } else { max };
                    Some((ServerMemory { used, max }, now))
                }
                Some(Err(error)) => {
                    refusal = Some(error);
                    None
                }
                None => before
                    .remove(&name)
                    .filter(|(_, read_at)| now.saturating_duration_since(*read_at) < MAX_AGE),
            };
            state.servers.extend(known.map(|known| (name, known)));
        }
        let known = state.servers.values().map(|(memory, _)| *memory);
        state.fullest = known.max_by(|a, b| ratio(*a).total_cmp(&ratio(*b)));
        match (state.fullest, refusal) {
            (Some(fullest), _) => {
                state.is_refused = false;
                state.log(ratio(fullest));
            }
            (None, Some(error)) => {
                if !mem::replace(&mut state.is_refused, true) {
                    tracing::warn!(
                        %error,
                        "redis does not tell how full it is, so nothing but their time to live \
                         bounds the cache entries in it; allow its user +info"
                    );
                }
            }
            (None, None) => {}
        }
    }
}

impl RoomState {
    fn publishable(&self) -> Publishable {
        let used = self.fullest.map_or(0.0, ratio);
        if used > MAX_FOR_ANY {
            Publishable::Nothing
        } else if used > MAX_FOR_NEW {
            Publishable::Replacements
        } else {
            Publishable::Any
        }
    }

    /// Logs a change to the worse, and the return of room.
    fn log(&mut self, used: f64) {
        let (publishable, percent) = (self.publishable(), (used * 100.0).round());
        if publishable > self.logged {
            let what = match publishable {
                Publishable::Nothing => "no responses are cached in it",
                _ => "no new responses are cached in it",
            };
            tracing::warn!(percent, "redis is nearly full: {what}; raise its maxmemory");
            self.logged = publishable;
        } else if used < ROOM_AGAIN && self.logged != Publishable::Any {
            tracing::info!(percent, "redis has room again: responses are cached in it");
            self.logged = Publishable::Any;
        }
    }
}

fn ratio(memory: ServerMemory) -> f64 {
    memory.used as f64 / memory.max as f64
}

#[cfg(test)]
mod tests {
    use redis::{ErrorKind, RedisError, RedisResult};

    use super::*;

    fn of(used: u64, max: u64) -> Option<RedisResult<ServerMemory>> {
        Some(Ok(ServerMemory { used, max }))
    }

    fn refusal() -> Option<RedisResult<ServerMemory>> {
        let error: RedisError = (ErrorKind::Io, "not allowed").into();
        Some(Err(error))
    }

    /// Takes over readings of servers that are named by numbers.
    fn update<const N: usize>(
        room: &RedisRoom,
        now: Instant,
        readings: [Option<RedisResult<ServerMemory>>; N],
    ) {
        let named = (0..)
            .zip(readings)
            .map(|(number, reading): (u8, _)| (number.to_string().into(), reading));
        room.update(named.collect(), now);
    }

    #[test]
    fn each_ceiling_ends_one_kind_of_publication() {
        let (room, now) = (RedisRoom::new(1000, 1), Instant::now());
        assert_eq!((room.publishable(), room.used_ratio()), (Publishable::Any, None));
        for (used, max, expected) in [
            (70, 100, Publishable::Any),
            (71, 100, Publishable::Replacements),
            (85, 100, Publishable::Replacements),
            (86, 100, Publishable::Nothing),
            (500, 100, Publishable::Nothing),
            // Without a limit of its own, the configured one.
            (700, 0, Publishable::Any),
            (851, 0, Publishable::Nothing),
        ] {
            update(&room, now, [of(used, max)]);
            assert_eq!(room.publishable(), expected, "{used} of {max}");
        }
        assert_eq!(room.used_ratio(), Some(0.851));
    }

    #[test]
    fn the_fullest_server_decides_and_servers_that_do_not_tell_do_not() {
        let (room, now) = (RedisRoom::new(1000, 1), Instant::now());
        update(&room, now, [of(10, 100), refusal(), of(80, 100), of(600, 1000)]);
        assert_eq!(room.used_ratio(), Some(0.8));
        update(&room, now + 2 * MAX_AGE, []);
        update(&room, now + 2 * MAX_AGE, [None]);
        assert_eq!(room.used_ratio(), Some(0.8), "no server replied");
        update(&room, now, [refusal()]);
        assert_eq!((room.publishable(), room.used_ratio()), (Publishable::Any, None));
    }

    #[test]
    fn a_server_that_does_not_reply_counts_as_it_was_for_a_time() {
        let (room, start) = (RedisRoom::new(1000, 1), Instant::now());
        let ratio_after = |age: Duration, readings: [_; 2]| {
            update(&room, start + age, readings);
            room.used_ratio()
        };
        let soon = Duration::from_secs(10);
        assert_eq!(ratio_after(Duration::ZERO, [of(90, 100), of(20, 100)]), Some(0.9));
        assert_eq!(ratio_after(soon, [None, of(30, 100)]), Some(0.9));
        assert_eq!(ratio_after(MAX_AGE - soon, [None, of(30, 100)]), Some(0.9));
        assert_eq!(ratio_after(MAX_AGE, [None, of(30, 100)]), Some(0.3));
        assert_eq!(ratio_after(MAX_AGE + soon, [of(90, 100), None]), Some(0.9));
        assert_eq!(ratio_after(MAX_AGE + 2 * soon, [of(10, 100), None]), Some(0.3));
        assert_eq!(ratio_after(MAX_AGE + 3 * soon, [refusal(), of(20, 100)]), Some(0.2));
        update(&room, start + MAX_AGE + 4 * soon, [of(10, 100)]);
        assert_eq!(room.used_ratio(), Some(0.1), "the other one has left the cluster");
    }

    #[test]
    fn what_all_replicas_publish_counts_until_the_next_reading() {
        let (room, now) = (RedisRoom::new(1000, 3), Instant::now());
        room.add(900);
        update(&room, now, [of(640, 0)]);
        room.add(20);
        assert_eq!(room.publishable(), Publishable::Any);
        room.add(1);
        assert_eq!(room.publishable(), Publishable::Replacements);
        update(&room, now, [of(640, 0)]);
        assert_eq!(room.publishable(), Publishable::Any);
    }
}
