//! The one way to Redis: a command goes out, and within `redis.timeout_ms` there is an answer
//! or word that there is none. Callers degrade; nothing here fails a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::time::Instant;

use super::answer::{RedisFailure, Replies, unexpected};
use super::cluster::Cluster;
use super::manager::Endpoint;
use super::node::{AccessMode, Lane, Node, Settings};
use super::servers::Servers;
use super::slots::slot;
use super::topology::Topology;
use crate::ops::PoolState;

/// Connections for limits alone: one is in use, one in case that it breaks.
const RESERVED: u32 = 2;

/// Pools of connections with breakers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RedisPool {
    nodes: Arc<RedisNodes>,
    lane: Lane,
}

#[derive(Debug)]
struct RedisNodes {
    nodes: Nodes,
    timeout: Duration,
    open_count: [Arc<AtomicU64>; 2],
}

#[derive(Debug)]
enum Nodes {
    One(Node),
    Cluster(Cluster),
}

impl RedisPool {
    /// A pool of `size` connections that are made when they are first needed. Does no I/O; must be
    /// called on a runtime.
    pub fn new(servers: Servers, size: u32, timeout: Duration) -> Self {
        let settings = Settings { sizes: [size, RESERVED], timeout, ..Settings::default() };
        let open_count = settings.open_count.clone();
        let one = |place| Nodes::One(Node::new("redis", &place, &settings));
        let nodes = match servers {
            Servers::Single(server) => one(Endpoint::Server(server)),
            Servers::Sentinel(sentinels) => one(Endpoint::Primary(sentinels)),
            Servers::Cluster { node, others } => {
                Nodes::Cluster(Cluster::new(Topology::new(node, others, settings)))
            }
        };
        Self { nodes: Arc::new(RedisNodes { nodes, timeout, open_count }), lane: Lane::Common }
    }

    /// A few connections of their own to the same Redis, for those who must not wait behind
    /// others. What one learns about Redis, the other knows.
    #[must_use]
    pub fn reserved(&self) -> Self {
        Self { nodes: Arc::clone(&self.nodes), lane: Lane::Reserved }
    }

    /// Whether all commands of this side are turned away at the moment.
    pub fn is_unavailable(&self, side: AccessMode) -> bool {
        match &self.nodes.nodes {
            Nodes::One(node) => node.is_unavailable(side),
            Nodes::Cluster(cluster) => cluster.is_unavailable(side),
        }
    }

    /// Whether commands of this side are sent, whatever their keys.
    pub fn is_fully_available(&self, side: AccessMode) -> bool {
        match &self.nodes.nodes {
            Nodes::One(node) => !node.is_unavailable(side),
            Nodes::Cluster(cluster) => cluster.is_fully_available(side),
        }
    }

    /// A key, made by `key` of some number, for each part of Redis that is away.
    pub(super) fn probe_keys(&self, side: AccessMode, key: impl Fn(u32) -> String) -> Vec<String> {
        match &self.nodes.nodes {
            Nodes::One(node) => node.is_unavailable(side).then(|| key(0)).into_iter().collect(),
            Nodes::Cluster(cluster) => cluster.probe_keys(side, key),
        }
    }

    /// The part of Redis that has a key, where parts can be away each on their own: its slot.
    pub fn part(&self, key: &str) -> u16 {
        match &self.nodes.nodes {
            Nodes::One(_) => 0,
            Nodes::Cluster(_) => slot(key),
        }
    }

    /// How often commands of this side began to be turned away.
    pub fn open_count(&self, side: AccessMode) -> u64 {
        self.nodes.open_count[side as usize].load(Ordering::Relaxed)
    }

    /// Its connections.
    pub fn state(&self) -> PoolState {
        match &self.nodes.nodes {
            Nodes::One(node) => node.state(self.lane),
            Nodes::Cluster(cluster) => cluster.state(self.lane),
        }
    }

    /// Sends one command that concerns `key`.
    ///
    /// # Errors
    /// [`RedisFailure`]; never later than `redis.timeout_ms` after the call.
    pub async fn send(
        &self,
        side: AccessMode,
        key: &str,
        command: Cmd,
    ) -> Result<Value, RedisFailure> {
        let reply = self.exchange(side, [(key, command)].into_iter(), self.deadline()).await?.pop();
        Ok(reply.unwrap_or_else(|| Err(unexpected("no reply to a command")))?)
    }

    /// When an answer must be there to what is asked now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.nodes.timeout
    }

    /// Sends commands, each with the key it concerns, at once; each has a result of its own, in
    /// the same order.
    ///
    /// # Errors
    /// [`RedisFailure`], when nothing is known of any of them; never later than `deadline`.
    pub(super) async fn exchange<'a>(
        &self,
        side: AccessMode,
        commands: impl ExactSizeIterator<Item = (&'a str, Cmd)>,
        deadline: Instant,
    ) -> Result<Replies, RedisFailure> {
        match &self.nodes.nodes {
            Nodes::One(node) => {
                let mut pipeline = Pipeline::with_capacity(commands.len());
                commands.for_each(|(_, command)| {
                    pipeline.add_command(command);
                });
                node.send(self.lane, side, pipeline, deadline).await
            }
            Nodes::Cluster(cluster) => {
                let keyed = commands.map(|(key, command)| (slot(key), command)).collect();
                cluster.send(self.lane, side, keyed, deadline).await
            }
        }
    }
}
