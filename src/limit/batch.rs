//! Group commit: one round trip at a time, and whoever comes meanwhile shares the next one.
//!
//! The first request to come when nothing is under way is sent at once, alone: there is no timer.
//! Requests that come during a round trip gather; when it ends they leave together, with one
//! command a key and limit for all of them, and what is admitted is shared out in the order of
//! arrival. Round trips are driven by a task of their own, which lives while there is somebody to
//! serve, so a caller that leaves stalls nobody; one that left before its batch was sent is not
//! counted.
//!
//! When a round trip fails, each request in it hears so, once. When it has failed for want of an
//! answer in time, so do those who gathered behind it for the same part of the store: they have
//! waited long enough.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use super::exhausted_keys::ExhaustedKeys;
use super::now;
use super::outages::OutageTracker;
use super::store::{Acquire, Replies, Store};
use super::window::{Decision, WindowState};
use crate::ops::{LimitMetrics, error_chain};
use crate::redis::RedisFailure;

/// Commands in one round trip, for however many requests: they keep Redis busy for a few
/// milliseconds at most.
const MAX_COMMANDS: usize = 512;

/// Requests that wait at once.
const MAX_WAITING: usize = 65_536;

/// Why a request was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotCounted {
    /// The store did not answer, or the part of it that has the key. Losses are numbered.
    Lost(u32),
    /// Too many wait already.
    Crowded,
}

/// A decision, and whether it was made without asking the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) decision: Decision,
    pub(super) remembered: bool,
}

type Outcome = Result<Counted, NotCounted>;

/// Asks the store for all requests of this replica.
#[derive(Debug)]
pub(super) struct Batcher<K, S>(Arc<Inner<K, S>>);

#[derive(Debug)]
struct Inner<K, S> {
    store: S,
    full: ExhaustedKeys<K>,
    queue: Mutex<Queue<K>>,
    outages: OutageTracker,
    metrics: LimitMetrics,
}

#[derive(Debug)]
struct Queue<K> {
    waiting: Vec<Waiter<K>>,
    /// Whether a task drives round trips, and so will come to those who wait.
    driven: bool,
}

#[derive(Debug)]
struct Waiter<K> {
    key: K,
    limit: u32,
    outcome: oneshot::Sender<Outcome>,
}

impl<K, S> Batcher<K, S>
where
    K: Eq + Hash + Copy + Send + Sync + 'static,
    S: Store<K>,
{
    pub(super) fn new(store: S, metrics: LimitMetrics) -> Self {
        let queue = Mutex::new(Queue { waiting: Vec::new(), driven: false });
        let (full, outages) = (ExhaustedKeys::default(), OutageTracker::default());
        Self(Arc::new(Inner { store, full, queue, outages, metrics }))
    }

    pub(super) fn store(&self) -> &S {
        &self.0.store
    }

    /// Decides about one request, with all that wait at the same time.
    pub(super) async fn ask(&self, key: K, limit: u32) -> Outcome {
        let begun = now();
        if let Some(decision) = self.0.full.check(key, limit, begun) {
            return Ok(Counted { decision, remembered: true });
        }
        let (outcome, receiver) = oneshot::channel();
        self.enqueue(Waiter { key, limit, outcome })?;
        // The driver keeps its promise, or crashed.
        let outcome =
            receiver.await.unwrap_or_else(|_| Err(NotCounted::Lost(self.0.outages.newest())));
        self.0.metrics.waited(now().saturating_duration_since(begun));
        outcome
    }

    fn enqueue(&self, waiter: Waiter<K>) -> Result<(), NotCounted> {
        let mut queue = self.0.queue();
        if queue.waiting.len() >= MAX_WAITING {
            return Err(NotCounted::Crowded);
        }
        queue.waiting.push(waiter);
        if !std::mem::replace(&mut queue.driven, true) {
            drop(queue);
            // Without the lock: a runtime that is ending drops the driver at once, which takes it.
            let driver = Driver { inner: Arc::clone(&self.0), finished: false };
            tokio::spawn(driver.run());
        }
        Ok(())
    }
}

impl<K, S: Store<K>> Inner<K, S> {
    fn lost(&self, key: &K) -> NotCounted {
        NotCounted::Lost(self.outages.begin(self.store.part(key)))
    }

    /// Those who wait for these parts wait no longer.
    fn give_up_waiting(&self, parts: &HashSet<u16>) {
        let mut queue = self.queue();
        let waiting = std::mem::take(&mut queue.waiting);
        let lost = |one: &Waiter<K>| parts.contains(&self.store.part(&one.key));
        let (lost, others): (Vec<_>, _) = waiting.into_iter().partition(lost);
        queue.waiting = others;
        drop(queue);
        lost.into_iter().for_each(|one| answer(one.outcome, Err(self.lost(&one.key))));
    }
}

impl<K, S> Inner<K, S> {
    fn queue(&self) -> MutexGuard<'_, Queue<K>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drives round trips until nobody waits. Should it crash, those who wait hear of it and the next
/// request starts another.
struct Driver<K, S> {
    inner: Arc<Inner<K, S>>,
    finished: bool,
}

impl<K, S> Drop for Driver<K, S> {
    fn drop(&mut self) {
        if !self.finished {
            let mut queue = self.inner.queue();
            queue.waiting.clear();
            queue.driven = false;
        }
    }
}

/// Requests that share a command.
#[derive(Debug)]
struct Group<K> {
    ask: Acquire<K>,
    outcomes: Vec<oneshot::Sender<Outcome>>,
}

impl<K, S> Driver<K, S>
where
    K: Eq + Hash + Copy + Send + Sync + 'static,
    S: Store<K>,
{
    async fn run(mut self) {
        while let Some(waiting) = self.next() {
            let groups = self.group(waiting);
            if !groups.is_empty() {
                self.commit(groups).await;
            }
        }
    }

    /// All who wait. With nobody left the driver signs off under the same lock, so
    /// that whoever comes next starts another.
    fn next(&mut self) -> Option<Vec<Waiter<K>>> {
        let mut queue = self.inner.queue();
        if queue.waiting.is_empty() {
            queue.driven = false;
            self.finished = true;
            return None;
        }
        Some(std::mem::take(&mut queue.waiting))
    }

    /// Puts together who has the same key and limit; leaves out who has left, and who is refused
    /// by what the round trip before has told. Whoever does not fit waits on, before all others.
    fn group(&self, waiting: Vec<Waiter<K>>) -> Vec<Group<K>> {
        let (mut groups, mut places) = (Vec::<Group<K>>::new(), HashMap::<_, usize>::new());
        let (mut too_many, now) = (Vec::new(), now());
        for waiter in waiting {
            let Waiter { key, limit, .. } = waiter;
            if waiter.outcome.is_closed() {
                continue;
            }
            if let Some(decision) = self.inner.full.check(key, limit, now) {
                answer(waiter.outcome, Ok(Counted { decision, remembered: true }));
            } else if let Some(&place) = places.get(&(key, limit)) {
                groups[place].add(waiter.outcome);
            } else if groups.len() < MAX_COMMANDS {
                places.insert((key, limit), groups.len());
                let ask = Acquire { key, limit, requests: 1 };
                groups.push(Group { ask, outcomes: vec![waiter.outcome] });
            } else {
                too_many.push(waiter);
            }
        }
        if !too_many.is_empty() {
            self.inner.queue().waiting.splice(0..0, too_many);
        }
        groups
    }

    async fn commit(&self, groups: Vec<Group<K>>) {
        let Inner { store, metrics, .. } = &*self.inner;
        let asks: Vec<_> = groups.iter().map(|group| group.ask).collect();
        let sent = now();
        let replies = store.admit(&asks).await;
        let received = now();
        let requests = asks.iter().map(|ask| ask.requests).sum();
        metrics.round_trip(asks.len(), requests, replies.is_ok(), received - sent);
        let refused = replies.iter().flatten().find_map(|reply| reply.as_ref().err());
        let changed = metrics.set_store_unavailable(store.is_unavailable() || refused.is_some());
        if changed && let Some(error) = refused {
            // It answers, but not this: a right that is missing, a node that has not the key.
            tracing::warn!(error = error_chain(error), "redis refuses to count");
        }
        let late = replies.as_ref().is_err_and(RedisFailure::is_late);
        match replies {
            Ok(replies) => self.share_out(groups, replies, (sent, received)),
            Err(error) => {
                tracing::debug!(%error, requests, "requests were not counted in the store");
                let parts = groups.iter().map(|group| store.part(&group.ask.key)).collect();
                for group in groups {
                    let loss = self.inner.lost(&group.ask.key);
                    group.fail(loss);
                }
                if late {
                    self.inner.give_up_waiting(&parts);
                }
            }
        }
    }

    /// Each command has a reply or an error of its own.
    fn share_out(&self, groups: Vec<Group<K>>, replies: Replies, times: (Instant, Instant)) {
        let full = &self.inner.full;
        self.end_losses(&groups, &replies);
        for (group, reply) in groups.into_iter().zip(replies) {
            match reply {
                Ok(standing) => {
                    full.mark_exhausted(group.ask.key, group.ask.limit, &standing, times);
                    group.share(&standing);
                }
                Err(error) => {
                    tracing::debug!(%error, "a key's requests were not counted in the store");
                    let loss = self.inner.lost(&group.ask.key);
                    group.fail(loss);
                }
            }
        }
    }

    /// A part of the store is there again when all that was asked of it was answered.
    fn end_losses(&self, groups: &[Group<K>], replies: &Replies) {
        let Inner { store, outages, .. } = &*self.inner;
        if !outages.any() {
            return;
        }
        let parts: Vec<_> = groups.iter().map(|group| store.part(&group.ask.key)).collect();
        let failed = parts.iter().zip(replies).filter(|(_, reply)| reply.is_err());
        let failed: HashSet<_> = failed.map(|(part, _)| part).collect();
        parts.iter().filter(|part| !failed.contains(part)).for_each(|part| outages.end(*part));
    }
}

impl<K> Group<K> {
    fn add(&mut self, outcome: oneshot::Sender<Outcome>) {
        self.ask.requests += 1;
        self.outcomes.push(outcome);
    }

    fn share(self, standing: &WindowState) {
        for (place, outcome) in (0..).zip(self.outcomes) {
            let decision = standing.decision(place, self.ask.limit);
            answer(outcome, Ok(Counted { decision, remembered: false }));
        }
    }

    fn fail(self, loss: NotCounted) {
        self.outcomes.into_iter().for_each(|outcome| answer(outcome, Err(loss)));
    }
}

/// Nobody minds when the caller has left.
fn answer(to: oneshot::Sender<Outcome>, outcome: Outcome) {
    let _ = to.send(outcome);
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
