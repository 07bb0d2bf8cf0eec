//! Limits the lookups of unknown keys, so that nobody who makes up keys keeps others from being
//! looked up.
//!
//! Each source has a budget of lookups that find no key. A source that has used it up is served last:
//! its lookups share a few of the concurrent ones, and are refused once the budget of all sources
//! together is used up too. Only lookups that have found no key count, not those under way, so a replica
//! that has just started learns its callers' keys as fast as the database replies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::net::{FailureLimiter, QueueTurn, RequestSource, SourceQueue};
use crate::sync::TokenBucket;

/// Lookups that find no key, of one source: in a burst, and per second on average.
const SOURCE_BURST: u32 = 100;
const SOURCE_PER_SECOND: u32 = 10;

/// Lookups that find no key, of all sources: in a burst, and per second on average. Lookups that wait
/// share statements (`record_loader`); what they cost the database is in docs/performance.md.
const TOTAL_BURST: u32 = 5_000;
const TOTAL_PER_SECOND: u32 = 5_000;

/// Concurrent lookups: as many as the record loader sends at once.
const MAX_CONCURRENT: usize = 256;

/// Concurrent lookups of sources that have used up their budget: a statement full.
const MAX_CONCURRENT_LAST: usize = 64;

/// The maximal time that a lookup waits to begin.
const MAX_WAIT: Duration = Duration::from_millis(300);

/// Grants permits for lookups. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct LookupLimiter(Arc<LookupLimits>);

#[derive(Debug)]
struct LookupLimits {
    queue: SourceQueue,
    total: TokenBucket,
}

/// The permit for one lookup, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct LookupPermit {
    limits: Arc<LookupLimits>,
    source: RequestSource,
    turn: QueueTurn,
}

impl LookupLimiter {
    pub(super) fn new() -> Self {
        let failures =
            FailureLimiter::new("lookups of unknown keys", SOURCE_BURST, SOURCE_PER_SECOND);
        Self(Arc::new(LookupLimits {
            queue: SourceQueue::new(failures, MAX_CONCURRENT, MAX_CONCURRENT_LAST),
            total: TokenBucket::new(TOTAL_BURST, TOTAL_PER_SECOND, Instant::now()),
        }))
    }

    /// A permit for one lookup; `None` if the source and all sources together have looked up too many
    /// unknown keys, or too many lookups are under way.
    pub(super) async fn acquire(&self, source: RequestSource) -> Option<LookupPermit> {
        let limits = &self.0;
        let is_within_budget = limits.queue.failures.is_within_budget(source);
        if !is_within_budget && limits.total.is_empty(Instant::now()) {
            return None;
        }
        let turn = timeout(MAX_WAIT, limits.queue.turn(source)).await.ok()?;
        Some(LookupPermit { limits: Arc::clone(limits), source, turn })
    }
}

impl LookupPermit {
    /// Records that the lookup found no key. One that was served last does not count against its
    /// source again.
    pub(super) fn count_unknown(self) {
        if !self.turn.is_last() {
            self.limits.queue.failures.count(self.source);
        }
        self.limits.total.try_take(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u8) -> RequestSource {
        RequestSource::of([10, 0, 0, number].into())
    }

    /// Looks up unknown keys until one is refused; how many were not.
    async fn exhaust(limiter: &LookupLimiter, source: RequestSource) -> u32 {
        let mut looked_up = 0;
        while let Some(permit) = limiter.acquire(source).await {
            permit.count_unknown();
            looked_up += 1;
            assert!(looked_up < 1_000_000, "there is no bound");
        }
        looked_up
    }

    #[tokio::test]
    async fn a_source_is_refused_once_the_total_is_used_up_and_others_are_not() {
        let limiter = LookupLimiter::new();
        assert!(exhaust(&limiter, source(1)).await >= TOTAL_BURST);
        for number in 2..100 {
            assert!(limiter.acquire(source(number)).await.is_some(), "{number}");
        }
    }

    #[tokio::test]
    async fn lookups_that_find_a_key_or_fail_never_count() {
        let limiter = LookupLimiter::new();
        for _ in 0..2 * TOTAL_BURST {
            drop(limiter.acquire(source(1)).await.expect("a permit"));
        }
        assert!(limiter.0.queue.failures.is_within_budget(source(1)), "within its budget");
    }

    #[tokio::test]
    async fn lookups_that_are_under_way_do_not_count() {
        let limiter = LookupLimiter::new();
        let mut held = Vec::new();
        // More than the budget of a source and the lookups of sources beyond it.
        for number in 0..192 {
            held.push(limiter.acquire(source(1)).await);
            assert!(held[number].is_some(), "{number}");
        }
    }

    #[tokio::test]
    async fn a_source_over_its_budget_leaves_room_for_others() {
        let limiter = LookupLimiter::new();
        for _ in 0..SOURCE_BURST {
            limiter.acquire(source(1)).await.expect("within its budget").count_unknown();
        }
        let mut held = Vec::new();
        while let Some(permit) = limiter.acquire(source(1)).await {
            held.push(permit);
        }
        // A few more may be within the budget, which grows by time.
        assert!(held.len() < MAX_CONCURRENT / 2, "{}", held.len());
        assert!(limiter.acquire(source(2)).await.is_some());
        held.clear();
        assert!(limiter.acquire(source(1)).await.is_some(), "served, as there is room again");
    }
}
