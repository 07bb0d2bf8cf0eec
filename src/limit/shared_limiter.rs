//! Decides by the windows that all replicas share, for all requests of this replica in batches: in a
//! cluster, in batches of their own for each node, so that a slow node delays no key of another.
//!
//! Requests of one key and limit that wait at the same time share one command, and the admitted
//! ones are the first to arrive. When a round trip fails, each of its requests gets one error.
//! When it fails because the store did not reply in time, requests that wait for the same shards
//! get that error too: they have waited long enough.

use std::collections::HashSet;
use std::hash::Hash;
use std::iter::repeat_with;
use std::sync::Arc;
use std::time::Instant;

use super::clock::now;
use super::exhausted_keys::ExhaustedKeys;
use super::outages::OutageTracker;
use super::window::{Decision, WindowState};
use super::window_store::{Acquire, AcquireReplies, WindowStore};
use crate::ops::{LimitMetrics, error_chain};
use crate::redis::RedisFailure;
use crate::sync::{
    BatchEntry, BatchError, BatchExecutor, BatchLimits, Batcher, WaitingRequests, WhenFull,
};

/// One round trip to a server at a time. 512 commands keep Redis busy for a few milliseconds at most.
const LIMITS: BatchLimits = BatchLimits {
    max_batch: 512,
    max_workers: 1,
    max_waiting: 65_536,
    when_full: WhenFull::RejectNew,
};

/// Maximum number of servers with batches of their own; more share them.
const LANES: usize = 16;

/// Why a request was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotCounted {
    /// The store, or the shard that has the key, did not reply. Outages are numbered.
    Outage(u32),
    /// Too many requests wait already.
    QueueFull,
}

/// A decision, and whether it was made without a command to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CountedDecision {
    pub(super) decision: Decision,
    pub(super) from_memory: bool,
}

type CountResult = Result<CountedDecision, NotCounted>;

/// A key and its limit in requests a minute.
type KeyAndLimit<K> = (K, u32);

type LimitEntry<K> = BatchEntry<KeyAndLimit<K>, CountResult>;

type LimitBatcher<K, S> = Batcher<KeyAndLimit<K>, CountResult, Arc<WindowBatches<K, S>>>;

/// Counts the requests of this replica in the shared windows. Refuses those whose window is known
/// to be exhausted without a command to the store.
#[derive(Debug)]
pub(super) struct SharedLimiter<K, S> {
    batches: Arc<WindowBatches<K, S>>,
    lanes: Vec<LimitBatcher<K, S>>,
}

#[derive(Debug)]
struct WindowBatches<K, S> {
    store: S,
    exhausted: ExhaustedKeys<K>,
    outages: OutageTracker,
    metrics: LimitMetrics,
}

impl<K, S> SharedLimiter<K, S>
where
    K: Eq + Hash + Copy + Send + Sync + 'static,
    S: WindowStore<K>,
{
    pub(super) fn new(store: S, metrics: LimitMetrics) -> Self {
        let (exhausted, outages) = (ExhaustedKeys::default(), OutageTracker::default());
        let batches = Arc::new(WindowBatches { store, exhausted, outages, metrics });
        let lane = || Batcher::new("limit_batches", Arc::clone(&batches), LIMITS);
        Self { lanes: repeat_with(lane).take(LANES).collect(), batches }
    }

    /// Decides about one request, together with all that wait at the same time.
    pub(super) async fn decide(&self, key: K, limit: u32) -> CountResult {
        let WindowBatches { store, exhausted, outages, metrics } = &*self.batches;
        let begun = now();
        if let Some(decision) = exhausted.check(key, limit, begun) {
            return Ok(CountedDecision { decision, from_memory: true });
        }
        let lane = &self.lanes[store.server(&key) % LANES];
        let result = match lane.run((key, limit)).await {
            Ok(result) => result,
            Err(BatchError::QueueFull) => return Err(NotCounted::QueueFull),
            Err(BatchError::TaskPanicked(_)) => Err(NotCounted::Outage(outages.newest())),
        };
        metrics.waited(now().saturating_duration_since(begun));
        result
    }
}

impl<K, S> BatchExecutor<KeyAndLimit<K>, CountResult> for Arc<WindowBatches<K, S>>
where
    K: Eq + Hash + Copy + Send + Sync + 'static,
    S: WindowStore<K>,
{
    async fn execute(
        &self,
        batch: Vec<LimitEntry<K>>,
        waiting: WaitingRequests<'_, KeyAndLimit<K>, CountResult>,
    ) {
        let batch = self.refuse_exhausted(batch);
        if batch.is_empty() {
            return;
        }
        let acquires: Vec<_> = batch.iter().map(acquire).collect();
        let sent = now();
        let replies = self.store.admit(&acquires).await;
        let received = now();
        self.observe(&acquires, &replies, (sent, received));
        match replies {
            Ok(replies) => self.distribute(batch, replies, (sent, received)),
            Err(error) => {
                let shards: HashSet<_> = batch.iter().map(|entry| self.shard(entry)).collect();
                batch.into_iter().for_each(|entry| self.fail(entry));
                if error.is_late() {
                    waiting.reply_where(
                        |(key, _)| shards.contains(&self.store.shard(key)),
                        |(key, _)| Err(self.outage(self.store.shard(key))),
                    );
                }
            }
        }
    }
}

impl<K, S> WindowBatches<K, S>
where
    K: Eq + Hash + Copy + Send + Sync + 'static,
    S: WindowStore<K>,
{
    /// Refuses requests whose windows the previous round trip reported as exhausted.
    fn refuse_exhausted(&self, batch: Vec<LimitEntry<K>>) -> Vec<LimitEntry<K>> {
        let (mut others, now) = (Vec::with_capacity(batch.len()), now());
        for entry in batch {
            let (key, limit) = entry.request;
            match self.exhausted.check(key, limit, now) {
                Some(decision) => entry.reply(Ok(CountedDecision { decision, from_memory: true })),
                None => others.push(entry),
            }
        }
        others
    }

    fn observe(
        &self,
        acquires: &[Acquire<K>],
        replies: &Result<AcquireReplies, RedisFailure>,
        (sent, received): (Instant, Instant),
    ) {
        let requests = acquires.iter().map(|acquire| acquire.requests).sum();
        self.metrics.round_trip(acquires.len(), requests, replies.is_ok(), received - sent);
        let refused = replies.iter().flatten().find_map(|reply| reply.as_ref().err());
        let changed =
            self.metrics.set_store_unavailable(self.store.is_unavailable() || refused.is_some());
        if changed && let Some(error) = refused {
            // Redis replies, but refuses this command: a missing right, or another node's key.
            tracing::warn!(error = error_chain(error), "redis refuses to count");
        }
        if let Err(error) = replies {
            tracing::debug!(%error, requests, "requests were not counted in the store");
        }
    }

    /// Replies to each entry from the reply or the error of its own command.
    fn distribute(
        &self,
        batch: Vec<LimitEntry<K>>,
        replies: AcquireReplies,
        times: (Instant, Instant),
    ) {
        self.end_outages(&batch, &replies);
        for (entry, reply) in batch.into_iter().zip(replies) {
            match reply {
                Ok(window) => {
                    let (key, limit) = entry.request;
                    self.exhausted.mark_exhausted(key, limit, &window, times);
                    reply_from_window(entry, &window);
                }
                Err(error) => {
                    tracing::debug!(%error, "a key's requests were not counted in the store");
                    self.fail(entry);
                }
            }
        }
    }

    /// Ends the outage of each shard that has replied to all of its commands without an error.
    fn end_outages(&self, batch: &[LimitEntry<K>], replies: &AcquireReplies) {
        if !self.outages.has_outage() {
            return;
        }
        let shards: Vec<_> = batch.iter().map(|entry| self.shard(entry)).collect();
        let failed = shards.iter().zip(replies).filter(|(_, reply)| reply.is_err());
        let failed: HashSet<_> = failed.map(|(shard, _)| shard).collect();
        shards
            .iter()
            .filter(|shard| !failed.contains(shard))
            .for_each(|shard| self.outages.end(*shard));
    }

    fn fail(&self, entry: LimitEntry<K>) {
        let outage = self.outage(self.shard(&entry));
        entry.reply(Err(outage));
    }

    fn outage(&self, shard: u16) -> NotCounted {
        NotCounted::Outage(self.outages.begin(shard))
    }

    fn shard(&self, entry: &LimitEntry<K>) -> u16 {
        self.store.shard(&entry.request.0)
    }
}

fn acquire<K: Copy>(entry: &LimitEntry<K>) -> Acquire<K> {
    let (key, limit) = entry.request;
    Acquire { key, limit, requests: u32::try_from(entry.callers()).unwrap_or(u32::MAX) }
}

fn reply_from_window<K>(entry: LimitEntry<K>, window: &WindowState) {
    let (_, limit) = entry.request;
    entry.reply_each(|index| {
        let decision = window.decision(u32::try_from(index).unwrap_or(u32::MAX), limit);
        Ok(CountedDecision { decision, from_memory: false })
    });
}

#[cfg(test)]
#[path = "shared_limiter_tests.rs"]
mod tests;
