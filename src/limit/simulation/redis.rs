//! A model of Redis and of each replica's link to it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::redis::{ErrorKind, RedisError};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::random::SeededRandom;
use crate::limit::clock::now;
use crate::limit::window::{WINDOW, WindowState};
use crate::limit::window_store::{Acquire, AcquireReplies, WindowStore};
use crate::redis::RedisFailure;
use crate::sync::{Breaker, CallOutcome, Permit, lock};

pub(super) type Key = u8;

const TIMEOUT: Duration = Duration::from_millis(50);

/// The state of a replica's link to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Open,
    Refused,
    Silent,
}

/// A window and how many requests it admitted.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowRecord {
    pub(super) key: Key,
    pub(super) opened: Instant,
    pub(super) granted: u32,
}

/// An outage of one replica's link: from the first failure to the next success.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutageRecord {
    pub(super) replica: usize,
    pub(super) began: Instant,
    pub(super) ended: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct SimulatedServer {
    open: HashMap<Key, usize>,
    pub(super) windows: Vec<WindowRecord>,
    pub(super) links: Vec<LinkState>,
    pub(super) emptied: Vec<Instant>,
    pub(super) outages: Vec<OutageRecord>,
    pub(super) random: SeededRandom,
    /// One in how many round trips is slow, loses its reply, or has a command that fails; 0 for
    /// none.
    pub(super) fault_rate: u64,
}

pub(super) type SharedServer = Arc<Mutex<SimulatedServer>>;

impl SimulatedServer {
    pub(super) fn new(replicas: usize, random: SeededRandom, fault_rate: u64) -> Self {
        Self {
            open: HashMap::new(),
            windows: Vec::new(),
            links: vec![LinkState::Open; replicas],
            emptied: Vec::new(),
            outages: Vec::new(),
            random,
            fault_rate,
        }
    }

    pub(super) fn empty(&mut self) {
        self.open.clear();
        self.emptied.push(now());
    }

    /// Does what the script `ADMIT` does with counters that only it writes.
    fn admit(&mut self, acquire: &Acquire<Key>) -> WindowState {
        let now = now();
        let open = self.open.get(&acquire.key).copied();
        let index = open.filter(|&index| now < self.windows[index].opened + WINDOW);
        let count = index.map_or(0, |index| self.windows[index].granted);
        let admitted = acquire.requests.min(acquire.limit.saturating_sub(count));
        let index = index.unwrap_or_else(|| {
            self.windows.push(WindowRecord { key: acquire.key, opened: now, granted: 0 });
            self.open.insert(acquire.key, self.windows.len() - 1);
            self.windows.len() - 1
        });
        self.windows[index].granted += admitted;
        let resets_in = (self.windows[index].opened + WINDOW).saturating_duration_since(now);
        WindowState { admitted, count: count + admitted, resets_in }
    }

    fn note(&mut self, replica: usize, failed: bool) {
        let lasting = self.outages.iter_mut().find(|l| l.replica == replica && l.ended.is_none());
        match lasting {
            Some(outage) if !failed => outage.ended = Some(now()),
            None if failed => {
                self.outages.push(OutageRecord { replica, began: now(), ended: None })
            }
            _ => {}
        }
    }

    fn travel_time(&mut self) -> Duration {
        let slow = self.random.perhaps(self.fault_rate);
        Duration::from_millis(self.random.below(if slow { 80 } else { 4 }))
    }
}

/// One replica's link to Redis, with a circuit breaker as the real pool has it.
#[derive(Debug, Clone)]
pub(super) struct SimulatedRedis {
    server: SharedServer,
    replica: usize,
    breaker: Arc<Breaker>,
}

impl SimulatedRedis {
    pub(super) fn new(server: &SharedServer, replica: usize) -> Self {
        let breaker = Arc::new(Breaker::new("simulated redis"));
        Self { server: Arc::clone(server), replica, breaker }
    }

    async fn call(self, acquires: Vec<Acquire<Key>>) -> Result<AcquireReplies, RedisFailure> {
        let begun = now();
        let refused = lock(&self.server).links[self.replica] == LinkState::Refused;
        let (result, outcome) = if refused {
            (Err(cut()), CallOutcome::Refused)
        } else {
            let (reply, receiver) = oneshot::channel();
            tokio::spawn(self.clone().travel(acquires, reply));
            match timeout(TIMEOUT, receiver).await {
                Err(_) => (Err(RedisFailure::Timeout), CallOutcome::Lost),
                Ok(Err(_)) => (Err(cut()), CallOutcome::Lost),
                Ok(Ok(replies)) => (Ok(replies), CallOutcome::Answered),
            }
        };
        self.breaker.record(outcome, begun, now(), || None);
        result
    }

    /// A command that was sent arrives and is executed, even if its caller does not wait any more.
    async fn travel(self, acquires: Vec<Acquire<Key>>, reply: oneshot::Sender<AcquireReplies>) {
        let there = lock(&self.server).travel_time();
        sleep(there).await;
        if lock(&self.server).links[self.replica] != LinkState::Open {
            // Keeps `reply`, so that the caller gets nothing until its timeout.
            sleep(2 * TIMEOUT).await;
            return drop(reply);
        }
        let (replies, back) = {
            let mut server = lock(&self.server);
            let mut replies: AcquireReplies =
                acquires.iter().map(|acquire| Ok(server.admit(acquire))).collect();
            let fault_rate = server.fault_rate;
            if server.random.perhaps(2 * fault_rate) {
                // One command gets an error, and the others their replies.
                let broken = server.random.below(replies.len() as u64) as usize;
                replies[broken] = Err(cut());
            }
            if server.random.perhaps(2 * fault_rate) {
                return;
            }
            (replies, server.travel_time())
        };
        sleep(back).await;
        // Fails where the caller does not wait any more, which is not an error.
        let _ = reply.send(replies);
    }
}

fn cut() -> RedisFailure {
    RedisFailure::Failed(RedisError::from((ErrorKind::Io, "simulated")))
}

impl WindowStore<Key> for SimulatedRedis {
    fn admit(
        &self,
        acquires: &[Acquire<Key>],
    ) -> impl Future<Output = Result<AcquireReplies, RedisFailure>> + Send {
        let (this, acquires) = (self.clone(), acquires.to_vec());
        async move {
            let (server, replica) = (Arc::clone(&this.server), this.replica);
            let replies = match this.breaker.permit(now()) {
                Permit::Call => this.call(acquires).await,
                Permit::Reject => Err(RedisFailure::CircuitOpen),
                Permit::Probe => {
                    tokio::spawn(this.call(acquires));
                    Err(RedisFailure::CircuitOpen)
                }
            };
            let good = replies.as_ref().is_ok_and(|replies| replies.iter().all(Result::is_ok));
            lock(&server).note(replica, !good);
            replies
        }
    }

    fn is_unavailable(&self) -> bool {
        self.breaker.is_open()
    }
}
