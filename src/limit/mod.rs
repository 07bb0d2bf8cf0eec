//! Requests a minute for each API key, across all replicas.
//!
//! A key's window opens with its first request and lasts a minute. Redis counts it, for all that
//! ask at the same time in one round trip; while Redis is away, each replica enforces its share by
//! itself, or refuses: never silently unlimited.
//!
//! In a window no more is admitted than the largest limit in force in it. A loss of Redis that
//! begins in it adds each replica's share at most, one that lasts since before it two shares of
//! the replicas concerned; a loss of Redis's data adds the limit.

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

/// A request can't be counted, and is refused for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("requests cannot be counted at the moment")]
pub struct LimiterUnavailable;

/// How limits are enforced.
#[derive(Debug, Clone)]
pub struct LimitOptions {
    /// Replicas that run, for each one's share.
    pub replicas: u32,
    /// What to do while Redis is away.
    pub without_redis: WithoutRedis,
    /// Whether anybody is refused; counted and reported it is in any case.
    pub enforce: bool,
    /// Where it is measured.
    pub metrics: LimitMetrics,
}

/// Decides which requests of a key may go on.
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

    /// Decides about one request of `key`, whose limit is `limit` requests a minute. Must be
    /// called on a runtime. Dropped while it waits, it is not counted unless it was just sent.
    ///
    /// # Errors
    /// [`LimiterUnavailable`] while Redis is away and the policy is to refuse, and when more requests
    /// wait than can be held.
    pub async fn decide(&self, key: K, limit: u32) -> Result<Decision, LimiterUnavailable> {
        self.0.decide(key, limit).await
    }

    /// Whether limits are enforced by this replica alone at the moment, though it has a Redis.
    pub fn is_degraded(&self) -> bool {
        self.0.is_degraded()
    }
}

/// The one clock of this module: the runtime's, which tests can set.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
