//! How limits are enforced, and the error when a request can't be counted.

use thiserror::Error;

use crate::config::WithoutRedis;
use crate::ops::LimitMetrics;

/// A request is refused because it can't be counted.
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
