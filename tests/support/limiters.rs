//! The limiters of several replicas, without the rest of the replicas.

use std::time::Duration;

use futures_util::future::join_all;
use gene_registry::config::WithoutRedis;
use gene_registry::limit::{Decision, LimitOptions, Limiter};
use gene_registry::ops::LimitMetrics;
use gene_registry::redis::{RedisKeys, RedisPool};

use super::redis::RedisServer;

/// Long enough that a loaded machine is not mistaken for a Redis that is unavailable.
pub(crate) const REDIS_TIMEOUT: Duration = Duration::from_secs(10);

/// The limiters of some replicas over one Redis. API keys are numbers here.
pub(crate) struct Limiters {
    pub(crate) all: Vec<Limiter<u32>>,
    pub(crate) pools: Vec<RedisPool>,
    pub(crate) prefix: String,
}

impl Limiters {
    /// Three limiters with a long timeout of Redis.
    pub(crate) fn three(redis: &RedisServer) -> Self {
        Self::new(3, redis, REDIS_TIMEOUT, WithoutRedis::Local)
    }

    pub(crate) fn new(
        count: u32,
        redis: &RedisServer,
        timeout: Duration,
        without_redis: WithoutRedis,
    ) -> Self {
        let prefix = RedisServer::new_prefix();
        let pool = |_| RedisPool::new(redis.servers(), 8, timeout).for_counters();
        let pools: Vec<_> = (0..count).map(pool).collect();
        let limiter = |pool: &RedisPool| {
            let options = LimitOptions {
                replicas: count,
                without_redis,
                enforce: true,
                metrics: LimitMetrics::default(),
            };
            Limiter::shared(pool.clone(), RedisKeys::new(&prefix), options)
        };
        Self { all: pools.iter().map(limiter).collect(), pools, prefix }
    }

    /// The name of a key's counter in Redis.
    pub(crate) fn counter(&self, key: u32) -> String {
        format!("{}:limit:{key}", self.prefix)
    }

    /// One decision by one of the limiters.
    #[track_caller]
    pub(crate) fn decide(
        &self,
        replica: usize,
        key: u32,
        limit: u32,
    ) -> impl Future<Output = Decision> {
        let caller = std::panic::Location::caller();
        async move {
            let decided = self.all[replica].decide(key, limit).await;
            decided.unwrap_or_else(|error| panic!("{caller}: {error}"))
        }
    }

    /// Makes `count` decisions at once, by the limiters in turn; returns the admitted ones.
    pub(crate) async fn admitted(&self, count: usize, key: u32, limit: u32) -> usize {
        let decisions = (0..count).map(|n| self.decide(n % self.all.len(), key, limit));
        admitted(&join_all(decisions).await)
    }
}

/// How many were admitted.
pub(crate) fn admitted(decisions: &[Decision]) -> usize {
    decisions.iter().filter(|decision| decision.admitted).count()
}

/// Waits like a client that was told to retry after this many seconds.
pub(crate) async fn wait_for_retry_after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
