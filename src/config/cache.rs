//! `[cache]`: how long answers are kept, and how much memory they may take.

use std::time::Duration;

use serde::Deserialize;

/// The caches in front of the registry.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Memory for answers in each replica, in bytes.
    pub local_max_bytes: u64,
    /// The largest answer that is shared through Redis, in bytes.
    pub shared_max_entry_bytes: u64,
    /// How long it is remembered, locally, that something does not exist; seconds.
    pub not_found_s: u64,
    /// Ages of search results.
    pub search: AgesConfig,
    /// Ages of phenotypes.
    pub phenotype: AgesConfig,
    /// Ages of arena insights.
    pub insights: AgesConfig,
}

/// The ages of one kind of answer, in seconds, each counted from the end of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgesConfig {
    /// Answered from the cache.
    pub fresh_s: u64,
    /// Answered from the cache while it is read again.
    pub stale_s: u64,
    /// The oldest an answer may be when the registry can't be read.
    pub if_error_s: u64,
}

impl CacheConfig {
    /// How long it is remembered that something does not exist.
    pub const fn not_found(&self) -> Duration {
        Duration::from_secs(self.not_found_s)
    }
}
