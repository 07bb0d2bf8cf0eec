//! Every key this service has in Redis. All begin with `redis.prefix`, all have an expiry.
//!
//! | key | value |
//! |---|---|
//! | `<prefix>:limit:<key id>` | the requests admitted in the API key's window, a number |
//! | `<prefix>:answer:<format>:<schema>:<request>` | a finished answer, as `cache/codec.rs` writes it |

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

    /// A finished answer. `format` is the version of its encoding, `schema` a fingerprint of
    /// the response schema: two releases never read each other's entries.
    pub fn answer(&self, format: u8, schema: &str, request: impl Display) -> String {
        format!("{}:answer:{format}:{schema}:{request}", self.prefix)
    }
}
