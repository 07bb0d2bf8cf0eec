//! What a store of windows must do for those who ask in batches.

use std::future::Future;

use super::window::WindowState;
use crate::redis::RedisFailure;

/// Requests of one key under one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Acquire<K> {
    pub(super) key: K,
    /// Requests a minute; not 0.
    pub(super) limit: u32,
    /// How many requests ask.
    pub(super) requests: u32,
}

/// How each window stands, in the order of the asks, or why that is not known.
pub(super) type Replies = Vec<Result<WindowState, RedisFailure>>;

/// Counts windows for all replicas. Redis in the service; the simulation has a model of it.
pub(super) trait Store<K>: Send + Sync + 'static {
    /// Asks for requests of several keys in one round trip; what is asked for one key is decided
    /// in the order of the asks.
    ///
    /// # Errors
    /// [`RedisFailure`] when nothing is known about any of them: each may have been counted or not.
    fn admit(
        &self,
        asks: &[Acquire<K>],
    ) -> impl Future<Output = Result<Replies, RedisFailure>> + Send;

    /// Whether the store is known to take no counts at the moment, of some keys at least.
    fn is_unavailable(&self) -> bool;

    /// The part of the store that counts a key, where parts can be lost each on their own.
    fn part(&self, _key: &K) -> u16 {
        0
    }
}
