//! The interface of a store that counts windows for all replicas.

use std::future::Future;

use super::window::WindowState;
use crate::redis::RedisFailure;

/// Requests of one key under one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Acquire<K> {
    pub(super) key: K,
    /// Requests a minute; not 0.
    pub(super) limit: u32,
    /// How many requests ask to be admitted, at least 1.
    pub(super) requests: u32,
}

/// The state of each window after its command, in the order of the commands, or that command's
/// error.
pub(super) type AcquireReplies = Vec<Result<WindowState, RedisFailure>>;

/// Counts windows for all replicas: Redis, and in the simulation a model of it.
pub(super) trait WindowStore<K>: Send + Sync + 'static {
    /// Admits requests of several keys in one round trip, commands for the same key in their
    /// order.
    ///
    /// # Errors
    /// [`RedisFailure`] when no command has a reply: each request may have been counted or not.
    fn admit(
        &self,
        acquires: &[Acquire<K>],
    ) -> impl Future<Output = Result<AcquireReplies, RedisFailure>> + Send;

    /// Whether the store is known to be unavailable at the moment, at least for some keys.
    fn is_unavailable(&self) -> bool;

    /// The shard of the store that counts a key. Shards can fail independently of each other.
    fn shard(&self, _key: &K) -> u16 {
        0
    }

    /// The server that counts a key, by a number. Requests for different servers do not wait for each
    /// other.
    fn server(&self, _key: &K) -> usize {
        0
    }
}
