//! The one way to Redis: a command goes out, and within `redis.timeout_ms` there is an answer
//! or word that there is none. Callers degrade; nothing here fails a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::time::Instant;

use super::cluster::Cluster;
use super::failure::{RedisFailure, Replies, unexpected};
use super::manager::Endpoint;
use super::node::{AccessMode, Node, NodeSettings, PoolKind};
use super::servers::Servers;
use super::slots::slot;
use super::topology::ClusterTopology;
use crate::ops::PoolState;

/// NodePool for limits alone: one is in use, one in case that it breaks.
const RESERVED: u32 = 2;

/// Pools of connections with breakers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RedisPool {
    nodes: Arc<RedisNodes>,
    kind: PoolKind,
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
        let settings = NodeSettings { sizes: [size, RESERVED], timeout, ..NodeSettings::default() };
        let open_count = settings.open_count.clone();
        let one = |place| Nodes::One(Node::new("redis", &place, &settings));
        let nodes = match servers {
            Servers::Single(server) => one(Endpoint::Server(server)),
            Servers::Sentinel(sentinels) => one(Endpoint::Primary(sentinels)),
            Servers::Cluster { node, others } => {
                Nodes::Cluster(Cluster::new(ClusterTopology::new(node, others, settings)))
            }
        };
        Self { nodes: Arc::new(RedisNodes { nodes, timeout, open_count }), kind: PoolKind::Common }
    }

    /// A few connections of their own to the same Redis, for those who must not wait behind
    /// others. What one learns about Redis, the other knows.
    #[must_use]
    pub fn reserved(&self) -> Self {
        Self { nodes: Arc::clone(&self.nodes), kind: PoolKind::Reserved }
    }

    /// Whether all commands of this mode are turned away at the moment.
    pub fn is_unavailable(&self, mode: AccessMode) -> bool {
        match &self.nodes.nodes {
            Nodes::One(node) => node.is_unavailable(mode),
            Nodes::Cluster(cluster) => cluster.is_unavailable(mode),
        }
    }

    /// Whether commands of this mode are sent, whatever their keys.
    pub fn is_fully_available(&self, mode: AccessMode) -> bool {
        match &self.nodes.nodes {
            Nodes::One(node) => !node.is_unavailable(mode),
            Nodes::Cluster(cluster) => cluster.is_fully_available(mode),
        }
    }

    /// A key, made by `key` of some number, for each part of Redis that is away.
    pub(super) fn probe_keys(&self, mode: AccessMode, key: impl Fn(u32) -> String) -> Vec<String> {
        match &self.nodes.nodes {
            Nodes::One(node) => node.is_unavailable(mode).then(|| key(0)).into_iter().collect(),
            Nodes::Cluster(cluster) => cluster.probe_keys(mode, key),
        }
    }

    /// The shard that has a key, where shards can fail independently: its slot in a cluster, else 0.
    pub fn shard(&self, key: &str) -> u16 {
        match &self.nodes.nodes {
            Nodes::One(_) => 0,
            Nodes::Cluster(_) => slot(key),
        }
    }

    /// How often commands of this mode began to be turned away.
    pub fn open_count(&self, mode: AccessMode) -> u64 {
        self.nodes.open_count[mode as usize].load(Ordering::Relaxed)
    }

    /// Its connections.
    pub fn state(&self) -> PoolState {
        match &self.nodes.nodes {
            Nodes::One(node) => node.state(self.kind),
            Nodes::Cluster(cluster) => cluster.state(self.kind),
        }
    }

    /// Sends one command that concerns `key`.
    ///
    /// # Errors
    /// [`RedisFailure`]; never later than `redis.timeout_ms` after the call.
    pub async fn send(
        &self,
        mode: AccessMode,
        key: &str,
        command: Cmd,
    ) -> Result<Value, RedisFailure> {
        let reply = self.exchange(mode, [(key, command)].into_iter(), self.deadline()).await?.pop();
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
        mode: AccessMode,
        commands: impl ExactSizeIterator<Item = (&'a str, Cmd)>,
        deadline: Instant,
    ) -> Result<Replies, RedisFailure> {
        match &self.nodes.nodes {
            Nodes::One(node) => {
                let mut pipeline = Pipeline::with_capacity(commands.len());
                commands.for_each(|(_, command)| {
                    pipeline.add_command(command);
                });
                node.send(self.kind, mode, pipeline, deadline).await
            }
            Nodes::Cluster(cluster) => {
                let keyed = commands.map(|(key, command)| (slot(key), command)).collect();
                cluster.send(self.kind, mode, keyed, deadline).await
            }
        }
    }
}
