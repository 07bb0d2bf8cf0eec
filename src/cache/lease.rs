//! Leases in Redis: the replica that holds the lease of a request reads the upstream for the whole
//! fleet, and the others wait for its result.

use std::time::Duration;

use redis::{FromRedisValue, Value, cmd};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::codec;
use super::entry::Entry;
use super::shared::{SharedCache, milliseconds};
use crate::redis::scripts::{ACQUIRE_LEASE, DELETE_IF_EQUAL};
use crate::redis::{AccessMode, Call, EntryKeys};
use crate::registry::Request;
use crate::upstream::{ReadStamp, UpstreamError};

/// Interval at which a waiting replica polls for the result.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(25);

pub(super) const FAILED: &str = "failed";
pub(super) const TIMED_OUT: &str = "timeout";
pub(super) const ABSENT: &str = "absent";

/// The right to read an entry for the whole fleet.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) keys: EntryKeys,
    pub(super) token: String,
    /// Whether Redis had no entry when the lease was acquired.
    pub(super) was_vacant: bool,
}

/// The result of trying to acquire a lease.
#[derive(Debug)]
pub(super) enum LeaseAttempt {
    /// This replica holds it.
    Acquired {
        /// The lease, to be released.
        lease: Lease,
        /// Whether Redis now has another entry than the known one.
        has_other_entry: bool,
    },
    /// Another replica holds it.
    Held {
        /// The holder's token.
        token: String,
        /// Time since the holder acquired it.
        age: Duration,
    },
    /// Redis is unavailable.
    Unavailable,
}

/// The result of waiting for the holder of a lease.
#[derive(Debug)]
pub(super) enum LeaseOutcome {
    /// The entry that it published.
    Entry(Entry),
    /// The gene or domain does not exist, as of this read.
    Absent(ReadStamp),
    /// Its read failed like this.
    Failed(UpstreamError),
    /// It released the lease, or let it expire, without a result.
    LeaseEnded,
    /// The deadline has passed, or Redis is unavailable.
    TimedOut,
}

impl SharedCache {
    /// Tries to acquire the lease of `request`. Also tells whether Redis has another entry than the
    /// `known` one: the previous holder may have just published.
    pub(super) async fn acquire_lease(
        &self,
        request: &Request,
        known: Option<&Entry>,
    ) -> LeaseAttempt {
        let Some((keys, _)) = self.keys(request) else { return LeaseAttempt::Unavailable };
        let token = random_token();
        let acquire = Call::script(&ACQUIRE_LEASE, &keys.lease)
            .arg(token.as_bytes())
            .arg(milliseconds(self.options.lease_ttl));
        let mut version = cmd("GETRANGE");
        version.arg(&keys.entry).arg(codec::VERSION.start).arg(codec::VERSION.end - 1);
        let calls = [acquire, Call::command(&keys.entry, version)];
        let Ok(replies) = self.pool.run(AccessMode::Write, &calls).await else {
            return LeaseAttempt::Unavailable;
        };
        let Ok([Ok(owner), version]) = <[_; 2]>::try_from(replies) else {
            return LeaseAttempt::Unavailable;
        };
        let Ok((holder, expires_in_ms)) = <(String, i64)>::from_redis_value(owner) else {
            return LeaseAttempt::Unavailable;
        };
        if holder != token {
            let expires_in = Duration::from_millis(u64::try_from(expires_in_ms).unwrap_or(0));
            let age = self.options.lease_ttl.saturating_sub(expires_in);
            return LeaseAttempt::Held { token: holder, age };
        }
        let known = known.map(|entry| codec::version(&entry.seen)).unwrap_or_default();
        // An error if the key holds another Redis type.
        let has_other_entry = version.as_ref().is_ok_and(|version| text(version) != known);
        let was_vacant = version.is_ok_and(|version| version == Value::BulkString(Vec::new()));
        LeaseAttempt::Acquired { lease: Lease { keys, token, was_vacant }, has_other_entry }
    }

    /// Releases a lease without a result.
    pub(super) async fn release_lease(&self, lease: &Lease) {
        self.write(&[self.release(lease)]).await;
    }

    pub(super) fn release<'a>(&self, lease: &'a Lease) -> Call<'a> {
        Call::script(&DELETE_IF_EQUAL, &lease.keys.lease).arg(lease.token.as_bytes())
    }

    /// Waits until `deadline` for the result of the replica that holds the lease `token`. Entries
    /// that `accept` rejects are ignored.
    pub(super) async fn wait(
        &self,
        request: &Request,
        token: &str,
        deadline: Instant,
        accept: impl Fn(&Entry) -> bool,
    ) -> LeaseOutcome {
        let Some((keys, history)) = self.keys(request) else { return LeaseOutcome::LeaseEnded };
        let mut polls = interval(LEASE_POLL_INTERVAL);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        polls.tick().await;
        loop {
            tokio::select! {
                _ = polls.tick() => {}
                () = sleep_until(deadline) => return LeaseOutcome::TimedOut,
            }
            let mut poll = cmd("MGET");
            poll.arg(&keys.entry).arg(&keys.outcome).arg(&keys.lease);
            let Ok(Value::Array(values)) =
                self.pool.send(AccessMode::Read, &keys.entry, poll).await
            else {
                return LeaseOutcome::TimedOut;
            };
            let Ok([entry, outcome, holder]) = <[Value; 3]>::try_from(values) else {
                return LeaseOutcome::TimedOut;
            };
            if let Some(entry) =
                self.decode(&keys.entry, history, request, entry).await.filter(&accept)
            {
                return LeaseOutcome::Entry(entry);
            }
            if let Some(outcome) = text(&outcome).strip_prefix(token).and_then(parse_outcome) {
                return match outcome {
                    LeaseOutcome::Absent(seen) => self
                        .upstream
                        .stamp_of_shared(&seen, history)
                        .map_or(LeaseOutcome::LeaseEnded, LeaseOutcome::Absent),
                    other => other,
                };
            }
            if text(&holder) != token {
                return LeaseOutcome::LeaseEnded;
            }
        }
    }
}

/// Parses an outcome marker, without the lease's token at its start.
fn parse_outcome(marker: &str) -> Option<LeaseOutcome> {
    let mut words = marker.trim_start().splitn(3, ' ');
    match (words.next()?, words.next(), words.next()) {
        (FAILED, None, None) => Some(LeaseOutcome::Failed(UpstreamError::Elsewhere)),
        (TIMED_OUT, None, None) => Some(LeaseOutcome::Failed(UpstreamError::Timeout)),
        (ABSENT, Some(read_at), Some(snapshot)) => {
            let snapshot = Some(snapshot).filter(|text| !text.is_empty());
            let snapshot = snapshot.map(str::parse).transpose().ok()?;
            Some(LeaseOutcome::Absent(ReadStamp::new(codec::time(read_at.as_bytes())?, snapshot)))
        }
        _ => None,
    }
}

fn text(value: &Value) -> &str {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        _ => "",
    }
}

/// A random token. If the system provides no randomness, two replicas may get the same one; then
/// both read the upstream.
fn random_token() -> String {
    let (a, b) = (getrandom::u64().unwrap_or_default(), getrandom::u64().unwrap_or_default());
    format!("{a:016x}{b:016x}")
}
