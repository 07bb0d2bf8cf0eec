//! The cache that all replicas share, in Redis. A failure of Redis is a miss, a skipped write or a
//! missing lease; it never fails a request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::{RedisResult, Value, cmd};
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::codec;
use super::entry::Entry;
use super::key::canonical_text;
use super::room::RedisRoom;
use crate::ops::{CacheEvent, Metrics};
use crate::redis::scripts::DELETE_IF_EQUAL;
use crate::redis::{AccessMode, Call, EntryKeys, RedisFailure, RedisKeys, RedisPool};
use crate::registry::Request;
use crate::upstream::UpstreamClient;

/// Interval at which the history of the database is told.
const HISTORY_INTERVAL: Duration = Duration::from_secs(1);

/// Time to live of the history in Redis: longer than any entry.
const HISTORY_TTL: Duration = Duration::from_secs(25 * 3_600);

/// The shared cache.
pub struct SharedCache {
    /// For reads, leases and their release.
    pub small: RedisPool,
    /// For entries that are published.
    pub large: RedisPool,
    /// The publications under way.
    pub publications: TaskTracker,
    /// The names of all keys.
    pub keys: RedisKeys,
    /// A fingerprint of the response schema: releases with different schemas share no entries.
    pub schema: String,
    /// Larger bodies are not shared, in bytes.
    pub max_entry_bytes: u64,
    /// The room that entries have.
    pub room: RedisRoom,
    /// Time to live of a lease: the longest time that one attempt to read may take.
    pub lease_ttl: Duration,
    /// The upstream whose responses are shared.
    pub upstream: Arc<UpstreamClient>,
    /// Counts what goes wrong with Redis.
    pub metrics: Arc<Metrics>,
}

impl SharedCache {
    /// The keys in the present history of the database, and its number; `None` while it is unknown.
    pub(super) fn keys(&self, request: &Request) -> Option<(EntryKeys, u64)> {
        let (history, number) = self.upstream.history()?;
        let entries = format!("{}:{}:{}", codec::FORMAT, self.schema, history.id());
        Some((self.keys.entry(&entries, canonical_text(request)), number))
    }

    /// Tells other replicas the present history of the database, or learns it from them while this
    /// one has not reached the database. Does not return.
    pub async fn share_history(&self) {
        let (key, mut told) = (self.keys.history(), String::new());
        loop {
            let present = self.upstream.history().map(|(history, _)| {
                // Numbers always have a JSON.
                serde_json::to_string(&(history, self.upstream.wal())).unwrap_or_default()
            });
            match present {
                None => self.learn_history(&key).await,
                Some(present) if present != told && self.upstream.is_primary_in_use() => {
                    let mut set = cmd("SET");
                    set.arg(&key).arg(&present).arg("PX").arg(milliseconds(HISTORY_TTL));
                    if self.write(&self.small, vec![Call::command(&key, set)]).await.is_some() {
                        told = present;
                    }
                }
                Some(_) => {}
            }
            sleep(HISTORY_INTERVAL).await;
        }
    }

    async fn learn_history(&self, key: &str) {
        let Ok(Value::BulkString(text)) = self.read(key).await else { return };
        if let Ok((history, wal)) = serde_json::from_slice(&text) {
            self.upstream.adopt_history(history, wal);
        }
    }

    pub(super) async fn get(&self, request: &Request) -> Option<Arc<Entry>> {
        let (EntryKeys { entry: key, .. }, history) = self.keys(request)?;
        match self.read(&key).await {
            Ok(value) => self.decode(&key, history, request, value).await,
            Err(error) => {
                // Another Redis type, such as a list: the next write of this key replaces it.
                if matches!(&error, RedisFailure::Failed(error) if error.code() == Some("WRONGTYPE"))
                {
                    self.metrics.count(CacheEvent::SharedUndecodable);
                }
                tracing::debug!(%error, "an entry could not be read from redis");
                None
            }
        }
    }

    async fn read(&self, key: &str) -> Result<Value, RedisFailure> {
        self.small.read(Call::command(key, cmd("GET").arg(key).to_owned())).await
    }

    /// Decodes a value. One that cannot be decoded is a miss; it is counted and deleted.
    pub(super) async fn decode(
        &self,
        key: &str,
        history: u64,
        request: &Request,
        value: Value,
    ) -> Option<Arc<Entry>> {
        let Value::BulkString(bytes) = value else { return None };
        if !self.upstream.may_use_shared() {
            return None;
        }
        let bytes = Bytes::from(bytes);
        let Some(mut entry) = codec::decode(key, request, &bytes) else {
            self.metrics.count(CacheEvent::SharedUndecodable);
            tracing::debug!("an entry in redis has another format or belongs to another key");
            let delete = Call::script(&DELETE_IF_EQUAL, key).arg(&bytes[..]);
            self.write(&self.small, vec![delete]).await;
            return None;
        };
        entry.seen = self.upstream.stamp_of_shared(&entry.seen, history)?;
        Some(Arc::new(entry))
    }

    /// Sends writes, and counts those that fail. Returns the replies, if Redis sent any.
    pub(super) async fn write(
        &self,
        redis: &RedisPool,
        calls: Vec<Call>,
    ) -> Option<Vec<RedisResult<Value>>> {
        if calls.is_empty() || redis.is_unavailable(AccessMode::Write) {
            return None;
        }
        match redis.run(AccessMode::Write, &calls).await {
            Ok(replies) => {
                replies.iter().filter_map(|reply| reply.as_ref().err()).for_each(|error| {
                    self.metrics.count(CacheEvent::SharedWriteFailed);
                    tracing::debug!(%error, "redis rejected a write");
                });
                Some(replies)
            }
            Err(error) => {
                self.metrics.count(CacheEvent::SharedWriteFailed);
                tracing::debug!(%error, "a write to redis failed");
                None
            }
        }
    }
}

/// A duration as an argument of `PX`: 1 ms at least.
pub(super) fn milliseconds(duration: Duration) -> String {
    duration.as_millis().max(1).to_string()
}
