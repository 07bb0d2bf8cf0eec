//! What the replicas share through Redis: cached responses and the counters of the limits.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::error::StartError;
use crate::api::Document;
use crate::cache::{RedisRoom, SharedCache};
use crate::config::Config;
use crate::limit::{LimitOptions, Limiter};
use crate::ops::Metrics;
use crate::redis::{RedisKeys, RedisPool, Servers};
use crate::registry::KeyId;
use crate::upstream::UpstreamClient;

/// The connection pools.
pub(super) struct Redis {
    pub(super) cache: RedisPool,
    /// Separate, so that a burst of cache misses does not delay the counting of requests.
    pub(super) limits: RedisPool,
    keys: RedisKeys,
}

/// The pools, if Redis is configured. Does not connect yet.
pub(super) fn connections(config: &Config) -> Result<Option<Redis>, StartError> {
    let Some(servers) = Servers::read(&config.redis)? else {
        tracing::info!(
            "without Redis (redis.url): responses are cached and limits counted in this process only"
        );
        return Ok(None);
    };
    let (size, timeout) = (config.redis.pool_size, Duration::from_millis(config.redis.timeout_ms));
    let cache = RedisPool::new(servers, size, timeout);
    let limits = cache.for_counters();
    Ok(Some(Redis { cache, limits, keys: RedisKeys::new(&config.redis.prefix) }))
}

impl Redis {
    /// Probes unavailable servers until they are available again, also without requests; does not
    /// return.
    pub(super) async fn run_probes(&self) {
        self.cache.run_probes(&self.keys).await;
    }

    /// The cache that the replicas share.
    pub(super) fn shared_cache(
        &self,
        config: &Config,
        document: &Document,
        upstream: &Arc<UpstreamClient>,
        metrics: &Arc<Metrics>,
    ) -> SharedCache {
        // The lease must outlive the longest attempt. If it expired before its owner reported a
        // failure, the next replica would repeat the attempt, and so on.
        let timeouts = &config.upstream;
        let attempt_ms =
            [config.shed.wait_ms, timeouts.wait_ms, timeouts.connect_ms, timeouts.query_ms];
        SharedCache {
            small: self.cache.clone(),
            large: self.cache.for_large_values(),
            publications: TaskTracker::new(),
            keys: self.keys.clone(),
            schema: document.fingerprint(),
            max_entry_bytes: config.cache.shared_max_entry_bytes,
            room: RedisRoom::new(config.redis.max_bytes, config.rate_limit.replicas),
            lease_ttl: attempt_ms.map(Duration::from_millis).iter().sum(),
            upstream: Arc::clone(upstream),
            metrics: Arc::clone(metrics),
        }
    }
}

/// The limiter: it counts in Redis if there is one, else in this process.
pub(super) fn limiter(config: &Config, redis: Option<&Redis>, metrics: &Metrics) -> Limiter<KeyId> {
    let options = LimitOptions {
        replicas: config.rate_limit.replicas,
        without_redis: config.rate_limit.without_redis,
        enforce: config.rate_limit.enforce,
        metrics: metrics.limits(),
    };
    match redis {
        Some(redis) => Limiter::shared(redis.limits.clone(), redis.keys.clone(), options),
        None => Limiter::in_process(options),
    }
}
