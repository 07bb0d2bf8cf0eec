//! `[cache]`: the ages at which cached responses are served, and the memory they may use.

use serde::Deserialize;

/// The local cache and the cache shared through Redis.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Memory for cached responses in each replica, in bytes.
    pub local_max_bytes: u64,
    /// The largest response body that is shared through Redis, in bytes.
    pub shared_max_entry_bytes: u64,
    /// Time to live of "not found" in the local cache, in seconds, 0 to 86400.
    pub not_found_s: u64,
    /// Ages of search results.
    pub search: AgesConfig,
    /// Ages of phenotypes.
    pub phenotype: AgesConfig,
    /// Ages of arena insights.
    pub insights: AgesConfig,
}

/// The ages of one kind of response, in seconds, counted from the read of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgesConfig {
    /// Up to this age a cached response is fresh: it is served as it is.
    pub fresh_s: u64,
    /// For this long after `fresh_s` it is stale: served while it is refreshed in the background.
    pub stale_s: u64,
    /// Up to this age, 0 to 86400, it is served while the database cannot be read.
    pub if_error_s: u64,
}
