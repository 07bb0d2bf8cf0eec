//! Runs one world and records what its callers saw.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::random::SeededRandom;
use super::redis::{
    Key, LinkState, OutageRecord, SharedServer, SimulatedRedis, SimulatedServer, WindowRecord,
};
use crate::config::WithoutRedis;
use crate::limit::LimitOptions;
use crate::limit::clock::now;
use crate::limit::limiter::Limiter;
use crate::ops::LimitMetrics;
use crate::sync::lock;

const LENGTH_MS: u64 = 200_000;
const KEYS: u64 = 2;
/// A replica learns of a changed limit within this time.
const LAG_MS: u64 = 2_000;

/// A request and its result.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallRecord {
    pub(super) key: Key,
    pub(super) limit: u32,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) end: CallEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEnd {
    Admitted,
    Refused,
    NotCounted,
    /// The caller stopped waiting.
    Abandoned,
}

/// What happened in a world.
#[derive(Debug)]
pub(super) struct WorldHistory {
    pub(super) replicas: u32,
    pub(super) calls: Vec<CallRecord>,
    pub(super) windows: Vec<WindowRecord>,
    pub(super) emptied: Vec<Instant>,
    pub(super) outages: Vec<OutageRecord>,
}

struct Replica {
    limiter: Limiter<Key, SimulatedRedis>,
    limits: Mutex<Vec<u32>>,
}

type Replicas = Arc<Vec<Replica>>;

/// Runs a world to its end.
pub(super) async fn live(mut random: SeededRandom) -> WorldHistory {
    let count = 1 + random.below(4) as usize;
    let fault_rate = [0, 0, 10, 40][random.below(4) as usize];
    let server = SimulatedServer::new(count, SeededRandom(random.next()), fault_rate);
    let server: SharedServer = Arc::new(Mutex::new(server));
    let limits: Vec<u32> = (0..KEYS).map(|_| limit(&mut random)).collect();
    let without_redis = if random.one_in(5) { WithoutRedis::Refuse } else { WithoutRedis::Local };
    let replica = |number| {
        let options = LimitOptions {
            replicas: count as u32,
            without_redis,
            enforce: true,
            metrics: LimitMetrics::default(),
        };
        let limiter = Limiter::new(Some(SimulatedRedis::new(&server, number)), options);
        Replica { limiter, limits: Mutex::new(limits.clone()) }
    };
    let replicas: Replicas = Arc::new((0..count).map(replica).collect());

    let mut events = JoinSet::new();
    if !random.one_in(4) {
        plan_outages(&mut random, &server, &mut events);
    }
    if random.one_in(3) {
        plan_emptying(&mut random, &server, &mut events);
    }
    if random.one_in(2) {
        plan_limits(&mut random, &replicas, &mut events);
    }
    let calls = plan_calls(&mut random, &replicas).join_all().await;
    let server = lock(&server);
    WorldHistory {
        replicas: count as u32,
        calls,
        windows: server.windows.clone(),
        emptied: server.emptied.clone(),
        outages: server.outages.clone(),
    }
}

fn limit(random: &mut SeededRandom) -> u32 {
    [1, 2, 3, 5, 8][random.below(5) as usize]
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One replica or all of them can't reach Redis, for milliseconds up to minutes.
fn plan_outages(random: &mut SeededRandom, server: &SharedServer, events: &mut JoinSet<()>) {
    for _ in 0..=random.below(4) {
        let at = random.below(LENGTH_MS);
        let shape = [100, 2_000, 70_000][random.below(3) as usize];
        let (lasts, choice) = (random.below(shape), random.below(8) as usize);
        let link = if random.one_in(2) { LinkState::Refused } else { LinkState::Silent };
        let emptied = random.one_in(4);
        let server = Arc::clone(server);
        let set = move |server: &SharedServer, link| {
            let links = &mut lock(server).links;
            // A choice that is no replica's index means all replicas.
            match links.get_mut(choice) {
                Some(one) => *one = link,
                None => links.fill(link),
            }
        };
        events.spawn(async move {
            sleep(ms(at)).await;
            set(&server, link);
            sleep(ms(lasts)).await;
            if emptied {
                lock(&server).empty();
            }
            set(&server, LinkState::Open);
        });
    }
}

fn plan_emptying(random: &mut SeededRandom, server: &SharedServer, events: &mut JoinSet<()>) {
    let (at, server) = (random.below(LENGTH_MS), Arc::clone(server));
    events.spawn(async move {
        sleep(ms(at)).await;
        lock(&server).empty();
    });
}

/// A limit changes, and each replica learns of it after a lag of its own.
fn plan_limits(random: &mut SeededRandom, replicas: &Replicas, events: &mut JoinSet<()>) {
    for _ in 0..=random.below(3) {
        let (at, key, new) = (random.below(LENGTH_MS), random.below(KEYS) as usize, limit(random));
        for number in 0..replicas.len() {
            let (lag, replicas) = (random.below(LAG_MS), Arc::clone(replicas));
            events.spawn(async move {
                sleep(ms(at + lag)).await;
                let mut limits = lock(&replicas[number].limits);
                limits[key] = new;
            });
        }
    }
}

/// Bursts of requests. Many are repeated about one window later, when it is just about to end.
fn plan_calls(random: &mut SeededRandom, replicas: &Replicas) -> JoinSet<CallRecord> {
    let mut calls = JoinSet::new();
    for _ in 0..14 {
        let mut at = random.below(LENGTH_MS);
        let key = random.below(KEYS) as Key;
        loop {
            let (requests, within) = (1 + random.below(10), 1 + random.below(120));
            for _ in 0..requests {
                let begins = at + random.below(within);
                let replica = random.below(replicas.len() as u64) as usize;
                let waits_for = random.one_in(15).then(|| random.below(6));
                calls.spawn(call(Arc::clone(replicas), replica, key, begins, waits_for));
            }
            if random.one_in(3) {
                break;
            }
            at += 59_900 + random.below(200);
        }
    }
    calls
}

async fn call(
    replicas: Replicas,
    replica: usize,
    key: Key,
    begins_ms: u64,
    timeout_ms: Option<u64>,
) -> CallRecord {
    sleep(ms(begins_ms)).await;
    let began = now();
    let Replica { limiter, limits } = &replicas[replica];
    let limit = lock(limits)[usize::from(key)];
    let waits_for = timeout_ms.map_or(Duration::MAX, ms);
    let end = match timeout(waits_for, limiter.decide(key, limit)).await {
        Err(_) => CallEnd::Abandoned,
        Ok(Err(_)) => CallEnd::NotCounted,
        Ok(Ok(decision)) if decision.admitted => CallEnd::Admitted,
        Ok(Ok(_)) => CallEnd::Refused,
    };
    CallRecord { key, limit, began, ended: now(), end }
}
