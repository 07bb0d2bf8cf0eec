//! A model of Redis, and of the way of each replica to it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::redis::{ErrorKind, RedisError};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::SeededRandom;
use crate::limit::now;
use crate::limit::window::{WINDOW, WindowState};
use crate::limit::window_store::{Acquire, AcquireReplies, WindowStore};
use crate::redis::RedisFailure;
use crate::sync::{Breaker, CallOutcome, Permit};

pub(super) type Key = u8;

const TIMEOUT: Duration = Duration::from_millis(50);

/// How a replica finds Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Open,
    Refused,
    Silent,
}

/// A window as it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowRecord {
    pub(super) key: Key,
    pub(super) opened: Instant,
    pub(super) granted: u32,
}

/// What stays of a run of failures of one replica: from the first one to the next success.
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
    /// One in how many round trips is slow, loses its reply, or has a command that fails.
    pub(super) trouble: u64,
}

pub(super) type SharedServer = Arc<Mutex<SimulatedServer>>;

pub(super) fn lock(server: &SharedServer) -> MutexGuard<'_, SimulatedServer> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimulatedServer {
    pub(super) fn new(replicas: usize, random: SeededRandom, trouble: u64) -> Self {
        Self {
            open: HashMap::new(),
            windows: Vec::new(),
            links: vec![LinkState::Open; replicas],
            emptied: Vec::new(),
            outages: Vec::new(),
            random,
            trouble,
        }
    }

    pub(super) fn empty(&mut self) {
        self.open.clear();
        self.emptied.push(now());
    }

    /// What the script does, for counters that only it writes.
    fn admit(&mut self, ask: &Acquire<Key>) -> WindowState {
        let now = now();
        let open = self.open.get(&ask.key).copied();
        let place = open.filter(|&place| now < self.windows[place].opened + WINDOW);
        let count = place.map_or(0, |place| self.windows[place].granted);
        let admitted = ask.requests.min(ask.limit.saturating_sub(count));
        let place = place.unwrap_or_else(|| {
            self.windows.push(WindowRecord { key: ask.key, opened: now, granted: 0 });
            self.open.insert(ask.key, self.windows.len() - 1);
            self.windows.len() - 1
        });
        self.windows[place].granted += admitted;
        let resets_in = (self.windows[place].opened + WINDOW).saturating_duration_since(now);
        WindowState { admitted, count: count + admitted, resets_in }
    }

    fn note(&mut self, replica: usize, failed: bool) {
        let lasting = self.outages.iter_mut().find(|l| l.replica == replica && l.ended.is_none());
        match lasting {
            Some(loss) if !failed => loss.ended = Some(now()),
            None if failed => {
                self.outages.push(OutageRecord { replica, began: now(), ended: None })
            }
            _ => {}
        }
    }

    fn travel_time(&mut self) -> Duration {
        let slow = self.random.perhaps(self.trouble);
        Duration::from_millis(self.random.below(if slow { 80 } else { 4 }))
    }
}

/// One replica's way to Redis, with a breaker as the pool has it.
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

    async fn call(self, asks: Vec<Acquire<Key>>) -> Result<AcquireReplies, RedisFailure> {
        let begun = now();
        let refused = lock(&self.server).links[self.replica] == LinkState::Refused;
        let (result, outcome) = if refused {
            (Err(cut()), CallOutcome::Refused)
        } else {
            let (reply, receiver) = oneshot::channel();
            tokio::spawn(self.clone().travel(asks, reply));
            match timeout(TIMEOUT, receiver).await {
                Err(_) => (Err(RedisFailure::Timeout), CallOutcome::Lost),
                Ok(Err(_)) => (Err(cut()), CallOutcome::Lost),
                Ok(Ok(replies)) => (Ok(replies), CallOutcome::Answered),
            }
        };
        self.breaker.record(outcome, begun, now());
        result
    }

    /// What is on its way arrives, and is done, also when nobody waits any more.
    async fn travel(self, asks: Vec<Acquire<Key>>, reply: oneshot::Sender<AcquireReplies>) {
        let there = lock(&self.server).travel_time();
        sleep(there).await;
        if lock(&self.server).links[self.replica] != LinkState::Open {
            // Held, so that the sender hears nothing until its timeout.
            sleep(2 * TIMEOUT).await;
            return drop(reply);
        }
        let (replies, back) = {
            let mut server = lock(&self.server);
            let mut replies: AcquireReplies =
                asks.iter().map(|ask| Ok(server.admit(ask))).collect();
            let trouble = server.trouble;
            if server.random.perhaps(2 * trouble) {
                // One command's answer is an error, though the others' are good.
                let broken = server.random.below(replies.len() as u64) as usize;
                replies[broken] = Err(cut());
            }
            if server.random.perhaps(2 * trouble) {
                return;
            }
            (replies, server.travel_time())
        };
        sleep(back).await;
        // Nobody may be waiting any more.
        let _ = reply.send(replies);
    }
}

fn cut() -> RedisFailure {
    RedisFailure::Failed(RedisError::from((ErrorKind::Io, "simulated")))
}

impl WindowStore<Key> for SimulatedRedis {
    fn admit(
        &self,
        asks: &[Acquire<Key>],
    ) -> impl Future<Output = Result<AcquireReplies, RedisFailure>> + Send {
        let (this, asks) = (self.clone(), asks.to_vec());
        async move {
            let (server, replica) = (Arc::clone(&this.server), this.replica);
            let replies = match this.breaker.permit(now()) {
                Permit::Call => this.call(asks).await,
                Permit::Reject => Err(RedisFailure::CircuitOpen),
                Permit::Probe => {
                    tokio::spawn(this.call(asks));
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
