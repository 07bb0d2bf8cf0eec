//! `[redis]` and `[rate_limit]`: what replicas share.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

use crate::limit::WithoutRedis;

/// The shared cache and the counters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisConfig {
    /// `redis://…`; `REDIS_URL` sets it too.
    pub url: Option<SecretString>,
    /// Begins every key.
    pub prefix: String,
    /// For any answer, in milliseconds.
    pub timeout_ms: u64,
    /// Connections at most.
    pub pool_size: u32,
}

impl RedisConfig {
    /// For any answer.
    pub const fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// Requests a minute for each key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitConfig {
    /// Replicas that run.
    pub replicas: u32,
    /// What to do while Redis is away.
    pub without_redis: WithoutRedis,
    /// Whether requests over the limit are refused.
    pub enforce: bool,
}
