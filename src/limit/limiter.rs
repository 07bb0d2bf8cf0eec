//! The limiter of a replica, for the rest of the service.

use std::fmt::Display;
use std::hash::Hash;

use super::options::{LimitOptions, LimiterUnavailable};
use super::policy::Policy;
use super::redis_windows::RedisWindows;
use super::window::Decision;
use crate::redis::{RedisKeys, RedisPool};

/// Decides which requests of a key are admitted.
#[derive(Debug)]
pub struct Limiter<K>(Policy<K, RedisWindows>);

impl<K: Eq + Hash + Copy + Display + Send + Sync + 'static> Limiter<K> {
    /// A limiter for a replica that has no Redis at all.
    pub fn in_process(options: LimitOptions) -> Self {
        Self(Policy::new(None, options))
    }

    /// A limiter that counts in Redis.
    pub fn shared(pool: RedisPool, keys: RedisKeys, options: LimitOptions) -> Self {
        Self(Policy::new(Some(RedisWindows::new(pool, keys)), options))
    }

    /// Decides about one request of `key`, whose limit is `limit` requests a minute. Must be called
    /// on a runtime. If the caller stops waiting before the request is sent, it is not counted.
    ///
    /// # Errors
    /// [`LimiterUnavailable`] while Redis is unavailable and the policy is to refuse, and when too
    /// many requests wait.
    pub async fn decide(&self, key: K, limit: u32) -> Result<Decision, LimiterUnavailable> {
        self.0.decide(key, limit).await
    }

    /// Whether Redis is configured, but unavailable at the moment for some keys at least.
    pub fn is_degraded(&self) -> bool {
        self.0.is_degraded()
    }
}
