//! Which count a request is held to: the shared one; while that is lost, what the policy says.

use std::hash::Hash;

use super::batch::{Batcher, Counted, NotCounted};
use super::local::LocalLimiter;
use super::store::Store;
use super::window::Decision;
use super::{LimitOptions, LimiterUnavailable, now};
use crate::config::WithoutRedis;
use crate::ops::{LimitMetrics, LimitResult};

/// Decides by the shared count where there is one, else by this replica's own.
#[derive(Debug)]
pub(super) struct Policy<K, S> {
    shared: Option<Batcher<K, S>>,
    local: LocalLimiter<K>,
    without_redis: WithoutRedis,
    enforce: bool,
    metrics: LimitMetrics,
}

impl<K, S> Policy<K, S>
where
    K: Eq + Hash + Copy + Send + Sync + 'static,
    S: Store<K>,
{
    pub(super) fn new(store: Option<S>, options: LimitOptions) -> Self {
        let LimitOptions { replicas, without_redis, enforce, metrics } = options;
        metrics.begin(store.is_some(), without_redis == WithoutRedis::Refuse);
        Self {
            shared: store.map(|store| Batcher::new(store, metrics.clone())),
            local: LocalLimiter::new(replicas),
            without_redis,
            enforce,
            metrics,
        }
    }

    /// Whether there is a shared count and it is known to be lost.
    pub(super) fn is_degraded(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.store().is_unavailable())
    }

    pub(super) async fn decide(&self, key: K, limit: u32) -> Result<Decision, LimiterUnavailable> {
        let counted = self.count(key, limit).await.inspect_err(|LimiterUnavailable| {
            self.metrics.decided(LimitResult::NotCounted);
        })?;
        let Counted { mut decision, remembered } = counted;
        let result = match (decision.admitted, self.enforce, remembered) {
            (true, _, _) => LimitResult::Admitted,
            (false, false, _) => LimitResult::Unenforced,
            (false, true, true) => LimitResult::RefusedLocally,
            (false, true, false) => LimitResult::Refused,
        };
        decision.admitted |= !self.enforce;
        self.metrics.decided(result);
        Ok(decision)
    }

    async fn count(&self, key: K, limit: u32) -> Result<Counted, LimiterUnavailable> {
        let own = |decision| Counted { decision, remembered: false };
        if limit == 0 {
            return Ok(Counted { decision: Decision::never(), remembered: true });
        }
        let Some(shared) = &self.shared else {
            return Ok(own(self.local.decide(key, limit, 0, now())));
        };
        let loss = match shared.ask(key, limit).await {
            Ok(counted) => return Ok(counted),
            // Whoever is not held to the limit is not turned away for the want of a count either.
            Err(_) if !self.enforce => 0,
            Err(NotCounted::Crowded) => return Err(LimiterUnavailable),
            Err(NotCounted::Lost(_)) if self.without_redis == WithoutRedis::Refuse => {
                return Err(LimiterUnavailable);
            }
            Err(NotCounted::Lost(loss)) => loss,
        };
        self.metrics.local_fallback();
        Ok(own(self.local.decide(key, limit, loss, now())))
    }
}
