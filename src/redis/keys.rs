//! Every key this service has in Redis. All begin with `redis.prefix`, all have an expiry.
//!
//! | key | value |
//! |---|---|
//! | `<prefix>:limit:<key id>` | the requests admitted in the API key's window, a number |
//! | `<prefix>:answer:<format>:<schema>:{<request>}` | a finished answer, as `cache/codec.rs` writes it |
//! | `<prefix>:lease:<format>:<schema>:{<request>}` | the random token of the replica that reads this answer from the upstream |
//! | `<prefix>:probe:<number>` | nothing; whether it can be written says whether Redis is back |
//! | `<prefix>:outcome:<format>:<schema>:{<request>}` | a lease's token and what came of it, where that was no answer |
//!
//! The braces make the three keys of a request fall into one slot of a Redis Cluster.

use std::fmt::Display;
use std::sync::Arc;

/// Makes keys.
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

    /// One of the keys that only show whether they can be read and written.
    pub fn probe(&self, number: u32) -> String {
        format!("{}:probe:{number}", self.prefix)
    }

    /// The keys of a request. `format` is the version of the answers' encoding, `schema` a
    /// fingerprint of the response schema: two releases never read each other's entries.
    pub fn answer(&self, format: u8, schema: &str, request: impl Display) -> AnswerKeys {
        let prefix = &self.prefix;
        let tail = format!(":{format}:{schema}:{{{request}}}");
        AnswerKeys {
            answer: format!("{prefix}:answer{tail}"),
            lease: format!("{prefix}:lease{tail}"),
            outcome: format!("{prefix}:outcome{tail}"),
        }
    }
}

/// The keys of one request.
#[derive(Debug)]
pub struct AnswerKeys {
    /// Its finished answer.
    pub answer: String,
    /// Who reads it from the upstream.
    pub lease: String,
    /// What came of that, where it was no answer.
    pub outcome: String,
}
