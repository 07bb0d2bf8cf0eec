//! The limiter of a replica. It chooses the count that a request is held to: the shared one, or
//! during an outage of Redis what `rate_limit.without_redis` says.

use std::fmt::Display;
use std::hash::Hash;

use super::clock::now;
use super::local::LocalLimiter;
use super::options::{LimitOptions, LimiterUnavailable};
use super::redis_windows::RedisWindows;
use super::shared_limiter::{CountedDecision, NotCounted, SharedLimiter};
use super::window::Decision;
use super::window_store::WindowStore;
use crate::config::WithoutRedis;
use crate::ops::LimitResult;
use crate::redis::{RedisKeys, RedisPool};

/// Decides which requests of a key are admitted: by the count that all replicas share if there is
/// one, else by this replica's own.
#[derive(Debug)]
pub struct Limiter<K, S = RedisWindows> {
    shared: Option<SharedLimiter<K, S>>,
    local: LocalLimiter<K>,
    options: LimitOptions,
}

impl<K: Eq + Hash + Copy + Display + Send + Sync + 'static> Limiter<K> {
    /// A limiter for a replica that has no Redis at all.
    pub fn in_process(options: LimitOptions) -> Self {
        Self::new(None, options)
    }

    /// A limiter that counts in Redis.
    pub fn shared(pool: RedisPool, keys: RedisKeys, options: LimitOptions) -> Self {
        Self::new(Some(RedisWindows::new(pool, keys)), options)
    }
}

#[expect(private_bounds, reason = "only the simulation has another store")]
impl<K, S> Limiter<K, S>
where
    K: Eq + Hash + Copy + Send + Sync + 'static,
    S: WindowStore<K>,
{
    pub(super) fn new(store: Option<S>, options: LimitOptions) -> Self {
        let LimitOptions { replicas, without_redis, metrics, .. } = &options;
        metrics.begin(store.is_some(), *without_redis == WithoutRedis::Refuse);
        Self {
            shared: store.map(|store| SharedLimiter::new(store, metrics.clone())),
            local: LocalLimiter::new(*replicas),
            options,
        }
    }

    /// Decides about one request of `key`, whose limit is `limit` requests a minute. Must be called
    /// on a runtime. If the caller stops waiting before the request is sent, it is not counted.
    ///
    /// # Errors
    /// [`LimiterUnavailable`] while Redis is unavailable and `rate_limit.without_redis` is
    /// `refuse`, and when too many requests wait.
    pub async fn decide(&self, key: K, limit: u32) -> Result<Decision, LimiterUnavailable> {
        let counted = self.count(key, limit).await.inspect_err(|LimiterUnavailable| {
            self.options.metrics.decided(LimitResult::NotCounted);
        })?;
        let CountedDecision { mut decision, from_memory } = counted;
        let result = match (decision.admitted, self.options.enforce, from_memory) {
            (true, _, _) => LimitResult::Admitted,
            (false, false, _) => LimitResult::Unenforced,
            (false, true, true) => LimitResult::RefusedLocally,
            (false, true, false) => LimitResult::Refused,
        };
        decision.admitted |= !self.options.enforce;
        self.options.metrics.decided(result);
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
            Err(_) if !self.options.enforce => 0,
            Err(NotCounted::QueueFull) => return Err(LimiterUnavailable),
            Err(NotCounted::Outage(_)) if self.options.without_redis == WithoutRedis::Refuse => {
                return Err(LimiterUnavailable);
            }
            Err(NotCounted::Outage(outage)) => outage,
        };
        self.options.metrics.local_fallback();
        Ok(self.count_locally(key, limit, outage))
    }

    fn count_locally(&self, key: K, limit: u32, outage: u32) -> CountedDecision {
        let decision = self.local.decide(key, limit, outage, now());
        CountedDecision { decision, from_memory: false }
    }
}
