//! A server that commands are sent to: its lanes, and circuit breakers for reads and for writes. Every
//! wait is bounded.

use std::sync::Arc;

use redis::Cmd;
use tokio::time::Instant;

use super::availability::{AccessMode, Availability};
use super::failure::{RedisFailure, Replies};
use super::lane::Lane;
use super::manager::Endpoint;
use super::node_pool::{NodePool, NodeSettings, PoolKind, pipeline};
use crate::ops::PoolState;

/// A server.
#[derive(Debug)]
pub(super) struct Node {
    /// As the log calls it. No two nodes of a topology have the same name.
    pub(super) name: Arc<str>,
    counters: Arc<NodePool>,
    small: Lane,
    large: Lane,
    availability: Arc<Availability>,
}

impl Node {
    /// A node whose connections are made when they are first needed. Does no I/O; must be called on
    /// a runtime. The log calls the node `name`.
    pub(super) fn new(name: &str, endpoint: &Endpoint, settings: &NodeSettings) -> Self {
        let availability = Arc::new(Availability::new(name, &settings.open_count));
        let pool = |kind| NodePool::new(endpoint, kind, settings, &availability);
        Self {
            name: name.into(),
            counters: Arc::new(pool(PoolKind::Counters)),
            small: Lane::small(pool(PoolKind::Small)),
            large: Lane::large(pool(PoolKind::Large)),
            availability,
        }
    }

    /// Whether commands of this mode are rejected at the moment.
    pub(super) fn is_unavailable(&self, mode: AccessMode) -> bool {
        self.availability.breaker(mode).is_open()
    }

    /// The connections of the pool of this kind.
    pub(super) fn state(&self, kind: PoolKind) -> PoolState {
        self.pool(kind).state()
    }

    fn pool(&self, kind: PoolKind) -> &Arc<NodePool> {
        match kind {
            PoolKind::Counters => &self.counters,
            PoolKind::Small => self.small.pool(),
            PoolKind::Large => self.large.pool(),
        }
    }

    /// Sends commands in one round trip. The replies are in the order of the commands.
    ///
    /// # Errors
    /// [`RedisFailure`]; never later than `deadline`, except that large values may first wait for others.
    pub(super) async fn send(
        &self,
        kind: PoolKind,
        mode: AccessMode,
        commands: Vec<Cmd>,
        deadline: Instant,
    ) -> Result<Replies, RedisFailure> {
        match kind {
            PoolKind::Counters => self.counters.send(mode, pipeline(commands), deadline).await,
            PoolKind::Small => self.small.send(mode, commands, Some(deadline)).await,
            // No request waits for them: they may wait for a batch as long as there is room.
            PoolKind::Large => self.large.send(mode, commands, None).await,
        }
    }

    /// Sends a command about the server itself. The reply does not affect the circuit breakers: the
    /// user may lack only this right.
    ///
    /// # Errors
    /// [`RedisFailure`]; never later than `deadline`.
    pub(super) async fn ask(
        &self,
        kind: PoolKind,
        command: Cmd,
        deadline: Instant,
    ) -> Result<Replies, RedisFailure> {
        if self.is_unavailable(AccessMode::Read) {
            return Err(RedisFailure::CircuitOpen);
        }
        self.pool(kind).exchange(&pipeline([command]), deadline).await
    }
}
