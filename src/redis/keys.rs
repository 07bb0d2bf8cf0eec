//! All Redis keys of this service. All begin with `redis.prefix`, and all have a time to live.
//!
//! | key | value |
//! |---|---|
//! | `<prefix>:limit:<key id>` | how many requests were admitted in the API key's window |
//! | `<prefix>:answer:<format>:<schema>:{<request>}` | a cache entry, as `cache/codec.rs` writes it |
//! | `<prefix>:lease:<format>:<schema>:{<request>}` | the random token of the replica that reads this entry from the upstream |
//! | `<prefix>:probe:<number>` | empty; written to find out whether Redis is available |
//! | `<prefix>:outcome:<format>:<schema>:{<request>}` | a lease's token and the outcome of its read, if there is no entry |
//!
//! The braces make the three keys of a request fall into one slot of a Redis Cluster.

use std::fmt::Display;
use std::sync::Arc;

/// Builds keys. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RedisKeys {
    prefix: Arc<str>,
}

impl RedisKeys {
    /// Keys that begin with `prefix`.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    /// The counter of an API key's window.
    pub fn limit(&self, key_id: impl Display) -> String {
        format!("{}:limit:{key_id}", self.prefix)
    }

    /// The key of a probe. Probes with different numbers have different keys.
    pub fn probe(&self, number: u32) -> String {
        format!("{}:probe:{number}", self.prefix)
    }

    /// The keys of a request's cache entry. `format` is the version of the entries' encoding,
    /// `schema` a fingerprint of the response schema: releases that differ in either never share
    /// entries.
    pub fn entry(&self, format: u8, schema: &str, request: impl Display) -> EntryKeys {
        let prefix = &self.prefix;
        let tail = format!(":{format}:{schema}:{{{request}}}");
        EntryKeys {
            entry: format!("{prefix}:answer{tail}"),
            lease: format!("{prefix}:lease{tail}"),
            outcome: format!("{prefix}:outcome{tail}"),
        }
    }
}

/// The keys of one cache entry.
#[derive(Debug)]
pub struct EntryKeys {
    /// The cache entry.
    pub entry: String,
    /// The lease of the replica that reads the entry from the upstream.
    pub lease: String,
    /// The outcome of that read, if there is no entry.
    pub outcome: String,
}
