//! Requests a minute for each API key, across all replicas.
//!
//! A key's window opens with its first request and lasts a minute. Redis counts it; while Redis
//! is away, each replica enforces its share by itself, or refuses: never silently unlimited.

mod local;
mod shared;
mod window;

use std::fmt::Display;
use std::hash::Hash;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::redis::{RedisKeys, RedisPool};

use local::LocalLimiter;
use shared::SharedLimiter;
pub use window::{Decision, WINDOW};

/// What to do with requests while Redis is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WithoutRedis {
    /// Each replica enforces ceil(limit / replicas) by itself.
    Local,
    /// Every request is refused with 503.
    Refuse,
}

/// Requests can't be counted, and the policy is to refuse them then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("requests cannot be counted at the moment")]
pub struct CannotCount;

/// Decides which requests of a key may go on.
#[derive(Debug)]
pub struct Limiter<K> {
    shared: Option<SharedLimiter>,
    local: LocalLimiter<K>,
    without_redis: WithoutRedis,
}

impl<K: Eq + Hash + Copy + Display> Limiter<K> {
    /// A limiter for a replica that has no Redis at all.
    pub fn in_process(replicas: u32) -> Self {
        Self {
            shared: None,
            local: LocalLimiter::new(replicas),
            without_redis: WithoutRedis::Local,
        }
    }

    /// A limiter that counts in Redis.
    pub fn shared(
        pool: RedisPool,
        keys: RedisKeys,
        replicas: u32,
        without_redis: WithoutRedis,
    ) -> Self {
        Self {
            shared: Some(SharedLimiter::new(pool, keys)),
            local: LocalLimiter::new(replicas),
            without_redis,
        }
    }

    /// Decides about one request of `key`, whose limit is `limit` requests a minute.
    ///
    /// # Errors
    /// [`CannotCount`] while Redis is away and the policy is to refuse.
    pub async fn decide(&self, key: K, limit: u32) -> Result<Decision, CannotCount> {
        if limit == 0 {
            return Ok(Decision::never());
        }
        if let Some(shared) = &self.shared {
            match shared.decide(key, limit).await {
                Ok(decision) => return Ok(decision),
                Err(error) => tracing::debug!(%error, "not counted in redis"),
            }
            if self.without_redis == WithoutRedis::Refuse {
                return Err(CannotCount);
            }
        }
        Ok(self.local.decide(key, limit, Instant::now()))
    }

    /// Whether limits are enforced by this replica alone at the moment, though it has a Redis.
    pub fn is_degraded(&self) -> bool {
        self.shared.as_ref().is_some_and(SharedLimiter::is_away)
    }
}
