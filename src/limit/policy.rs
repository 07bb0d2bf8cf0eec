//! Chooses the count that a request is held to: the shared one, or during an outage of Redis what
//! `rate_limit.without_redis` says.

use std::hash::Hash;

use super::clock::now;
use super::local::LocalLimiter;
use super::options::{LimitOptions, LimiterUnavailable};
use super::shared_limiter::{CountedDecision, NotCounted, SharedLimiter};
use super::window::Decision;
use super::window_store::WindowStore;
use crate::config::WithoutRedis;
use crate::ops::{LimitMetrics, LimitResult};

/// Decides by the shared count where there is one, else by this replica's own.
#[derive(Debug)]
pub(super) struct Policy<K, S> {
    shared: Option<SharedLimiter<K, S>>,
    local: LocalLimiter<K>,
    without_redis: WithoutRedis,
    enforce: bool,
    metrics: LimitMetrics,
}

impl<K, S> Policy<K, S>
where
    K: Eq + Hash + Copy + Send + Sync + 'static,
    S: WindowStore<K>,
{
    pub(super) fn new(store: Option<S>, options: LimitOptions) -> Self {
        let LimitOptions { replicas, without_redis, enforce, metrics } = options;
        metrics.begin(store.is_some(), without_redis == WithoutRedis::Refuse);
        Self {
            shared: store.map(|store| SharedLimiter::new(store, metrics.clone())),
            local: LocalLimiter::new(replicas),
            without_redis,
            enforce,
            metrics,
        }
    }

    /// Whether there is a shared count that is known to be unavailable.
    pub(super) fn is_degraded(&self) -> bool {
        self.shared.as_ref().is_some_and(SharedLimiter::is_unavailable)
    }

    pub(super) async fn decide(&self, key: K, limit: u32) -> Result<Decision, LimiterUnavailable> {
        let counted = self.count(key, limit).await.inspect_err(|LimiterUnavailable| {
            self.metrics.decided(LimitResult::NotCounted);
        })?;
        let CountedDecision { mut decision, from_memory } = counted;
        let result = match (decision.admitted, self.enforce, from_memory) {
            (true, _, _) => LimitResult::Admitted,
            (false, false, _) => LimitResult::Unenforced,
            (false, true, true) => LimitResult::RefusedLocally,
            (false, true, false) => LimitResult::Refused,
        };
        decision.admitted |= !self.enforce;
        self.metrics.decided(result);
        Ok(decision)
    }

    async fn count(&self, key: K, limit: u32) -> Result<CountedDecision, LimiterUnavailable> {
        if limit == 0 {
            return Ok(CountedDecision { decision: Decision::never(), from_memory: true });
        }
        let Some(shared) = &self.shared else {
            return Ok(self.count_locally(key, limit, 0));
        };
        let outage = match shared.decide(key, limit).await {
            Ok(counted) => return Ok(counted),
            // Where limits are not enforced, a missing count refuses nobody either.
            Err(_) if !self.enforce => 0,
            Err(NotCounted::QueueFull) => return Err(LimiterUnavailable),
            Err(NotCounted::Outage(_)) if self.without_redis == WithoutRedis::Refuse => {
                return Err(LimiterUnavailable);
            }
            Err(NotCounted::Outage(outage)) => outage,
        };
        self.metrics.local_fallback();
        Ok(self.count_locally(key, limit, outage))
    }

    fn count_locally(&self, key: K, limit: u32, outage: u32) -> CountedDecision {
        let decision = self.local.decide(key, limit, outage, now());
        CountedDecision { decision, from_memory: false }
    }
}
