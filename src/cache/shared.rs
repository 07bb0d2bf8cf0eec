//! Answers that all replicas share, in Redis. Trouble with Redis is a miss, or a write that is
//! skipped; it never fails a request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::{Value, cmd};

use super::codec;
use super::entry::Entry;
use super::key::CanonicalText;
use crate::redis::{NoAnswer, RedisKeys, RedisPool, Side};
use crate::registry::Request;

/// The cache behind the local one.
#[derive(Debug, Clone)]
pub struct SharedCache {
    pool: RedisPool,
    keys: RedisKeys,
    schema: Arc<str>,
    max_entry_bytes: usize,
}

impl SharedCache {
    /// `schema` is a fingerprint of the response schema; answers larger than `max_entry_bytes`
    /// are not shared.
    pub fn new(pool: RedisPool, keys: RedisKeys, schema: &str, max_entry_bytes: u64) -> Self {
        let max_entry_bytes = usize::try_from(max_entry_bytes).unwrap_or(usize::MAX);
        Self { pool, keys, schema: schema.into(), max_entry_bytes }
    }

    pub(super) async fn get(&self, request: &Request) -> Option<Entry> {
        let key = self.key(request);
        let mut command = cmd("GET");
        command.arg(&key);
        let bytes = match self.pool.send(Side::Read, command).await {
            Ok(Value::BulkString(bytes)) => Bytes::from(bytes),
            Ok(_) => return None,
            Err(error) => {
                tracing::debug!(%error, "answer not read from redis");
                return None;
            }
        };
        match codec::decode(&key, &bytes) {
            Ok(entry) => Some(entry),
            Err(error) => {
                tracing::warn!(%error, "an answer in redis could not be read");
                None
            }
        }
    }

    /// Keeps an answer for `lifetime`. Done when Redis has it, or will not have it.
    pub(super) async fn put(&self, request: &Request, entry: &Entry, lifetime: Duration) {
        if entry.body.len() > self.max_entry_bytes || self.pool.is_away(Side::Write) {
            return;
        }
        let key = self.key(request);
        let mut command = cmd("SET");
        command.arg(&key).arg(codec::encode(&key, entry));
        command.arg("PX").arg(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX));
        match self.pool.send(Side::Write, command).await {
            Ok(_) | Err(NoAnswer::Away) => {}
            Err(error) => tracing::debug!(%error, "answer not written to redis"),
        }
    }

    fn key(&self, request: &Request) -> String {
        self.keys.answer(codec::FORMAT, &self.schema, CanonicalText(request))
    }
}
