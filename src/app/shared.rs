//! What replicas share by Redis: answers, and the counts of requests.

use std::sync::Arc;

use super::StartError;
use crate::api::Document;
use crate::cache::SharedCache;
use crate::config::Config;
use crate::limit::{LimitOptions, Limiter};
use crate::ops::Metrics;
use crate::redis::{RedisKeys, RedisPool, Servers};
use crate::registry::KeyId;

/// The ways to Redis.
pub(super) struct Redis {
    pub(super) cache: RedisPool,
    /// A burst of cold requests must not keep limits from being counted.
    pub(super) limits: RedisPool,
    keys: RedisKeys,
}

impl Redis {
    /// Notices the return of what is away, also without requests; for ever.
    pub(super) fn run_probes(&self) -> impl Future<Output = ()> + use<> {
        self.cache.clone().run_probes(self.keys.clone())
    }
}

/// The ways there, where a Redis is configured. Connects to nothing yet.
pub(super) fn redis(config: &Config) -> Result<Option<Redis>, StartError> {
    let Some(servers) = Servers::read(&config.redis)? else {
        tracing::info!("no redis.url: answers are cached, and limits counted, in this process");
        return Ok(None);
    };
    let (size, timeout) = (config.redis.pool_size, config.redis.timeout());
    let cache = RedisPool::new(servers, size, timeout);
    let limits = cache.reserved();
    Ok(Some(Redis { cache, limits, keys: RedisKeys::new(&config.redis.prefix) }))
}

/// The cache that replicas share.
pub(super) fn shared_cache(
    config: &Config,
    redis: &Redis,
    document: &Document,
    metrics: &Arc<Metrics>,
) -> SharedCache {
    // A lease that ended before its owner could say that it had failed would send the next
    // replica the same way, and so on.
    let upstream = &config.upstream;
    let longest_try = config.shed.wait() + upstream.wait() + upstream.connect() + upstream.query();
    SharedCache::new(
        redis.cache.clone(),
        redis.keys.clone(),
        document.fingerprint(),
        config.cache.shared_max_entry_bytes,
        longest_try,
        Arc::clone(metrics),
    )
}

/// What counts requests: in Redis, or else in this process.
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
