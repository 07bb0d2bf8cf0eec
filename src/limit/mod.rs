//! Rate limits: requests a minute for each API key, counted in fixed windows across all replicas.
//!
//! A key's window opens with its first request and lasts a minute. Redis counts it, in one round
//! trip for all requests of a replica that wait at the same time. While Redis is unavailable, each
//! replica enforces its share of the limit or refuses all requests; it never stops limiting.
//!
//! A window admits at most the largest limit in force in it. An outage of Redis that begins in the
//! window adds up to one share for each replica, an outage that began earlier up to two shares for
//! each affected replica. A loss of Redis's data adds the limit once.

mod exhausted_keys;
mod local;
mod outages;
mod policy;
mod redis_windows;
mod shared_limiter;
#[cfg(test)]
mod simulation;
mod window;
mod window_store;

use std::fmt::Display;
use std::hash::Hash;
use std::time::Instant;

use thiserror::Error;

use crate::config::WithoutRedis;
use crate::ops::LimitMetrics;
use crate::redis::{RedisKeys, RedisPool};

use policy::Policy;
use redis_windows::RedisWindows;
pub use window::{Decision, WINDOW};

/// A request can't be counted, and is refused for that reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("requests cannot be counted at the moment")]
pub struct LimiterUnavailable;

/// How limits are enforced.
#[derive(Debug, Clone)]
pub struct LimitOptions {
    /// How many replicas run; each one's share is the limit divided by it, rounded up. At least 1.
    pub replicas: u32,
    /// What to do while Redis is unavailable.
    pub without_redis: WithoutRedis,
    /// Whether requests beyond the limit are refused. They are counted and reported in any case.
    pub enforce: bool,
    /// The metrics to record.
    pub metrics: LimitMetrics,
}

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

/// The clock of this module: the runtime's, which tests can control.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
