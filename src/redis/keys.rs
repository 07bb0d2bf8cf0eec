//! All Redis keys of this service. All begin with `redis.prefix`, and all have a time to live.
//!
//! | key | value |
//! |---|---|
//! | `<prefix>:limit:<key id>` | how many requests were admitted in the API key's window |
//! | `<prefix>:entry:<entries>:{<request>}` | a cache entry, as `cache/codec.rs` writes it |
//! | `<prefix>:lease:<entries>:{<request>}` | the random token of the replica that reads this entry from the upstream |
//! | `<prefix>:outcome:<entries>:{<request>}` | a lease's token and the outcome of its read, if there is no entry |
//! | `<prefix>:history` | the present history of the database, and the bytes of its write-ahead log |
//! | `<prefix>:probe:<number>` | empty; written to find out whether Redis is available |
//!
//! `<entries>` is the encoding of entries, a fingerprint of the response schema and the history of
//! the database, with colons between: what differs in one of them is never shared. The braces make the three keys of a request fall into one slot of a Redis Cluster.

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

    /// The key of the present history of the database.
    pub fn history(&self) -> String {
        format!("{}:history", self.prefix)
    }

    /// The keys of a request's cache entry. Entries with different `entries` are never shared.
    pub fn entry(&self, entries: &str, request: impl Display) -> EntryKeys {
        let prefix = &self.prefix;
        let tail = format!(":{entries}:{{{request}}}");
        EntryKeys {
            entry: format!("{prefix}:entry{tail}"),
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
