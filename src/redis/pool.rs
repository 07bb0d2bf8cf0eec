//! The one way to Redis: a command goes out, and within `redis.timeout_ms` there is an answer
//! or word that there is none. Callers degrade; nothing here fails a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::time::Instant;

use super::answer::{NoAnswer, Replies, unexpected};
use super::cluster::Cluster;
use super::manager::Place;
use super::node::{Lane, Node, Settings, Side};
use super::servers::Servers;
use super::slots::slot;
use super::topology::Topology;
use crate::ops::PoolState;

/// Connections for limits alone: one is in use, one in case that it breaks.
const RESERVED: u32 = 2;

/// Pools of connections with breakers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RedisPool {
    way: Arc<Way>,
    lane: Lane,
}

#[derive(Debug)]
struct Way {
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
            Servers::Single(server) => one(Place::Server(server)),
            Servers::Sentinel(sentinels) => one(Place::Primary(sentinels)),
            Servers::Cluster { node, others } => {
                Nodes::Cluster(Cluster::new(Topology::new(node, others, settings)))
            }
        };
        Self { way: Arc::new(Way { nodes, timeout, open_count }), lane: Lane::Common }
    }

    /// A few connections of their own to the same Redis, for those who must not wait behind
    /// others. What one learns about Redis, the other knows.
    #[must_use]
    pub fn reserved(&self) -> Self {
        Self { way: Arc::clone(&self.way), lane: Lane::Reserved }
    }

    /// Whether all commands of this side are turned away at the moment.
    pub fn is_away(&self, side: Side) -> bool {
        match &self.way.nodes {
            Nodes::One(node) => node.is_away(side),
            Nodes::Cluster(cluster) => cluster.is_away(side),
        }
    }

    /// Whether commands of this side are sent, whatever their keys.
    pub fn is_whole(&self, side: Side) -> bool {
        match &self.way.nodes {
            Nodes::One(node) => !node.is_away(side),
            Nodes::Cluster(cluster) => cluster.is_whole(side),
        }
    }

    /// A key, made by `key` of some number, for each part of Redis that is away.
    pub(super) fn keys_away(&self, side: Side, key: impl Fn(u32) -> String) -> Vec<String> {
        match &self.way.nodes {
            Nodes::One(node) => node.is_away(side).then(|| key(0)).into_iter().collect(),
            Nodes::Cluster(cluster) => cluster.keys_away(side, key),
        }
    }

    /// The part of Redis that has a key, where parts can be away each on their own: its slot.
    pub fn part(&self, key: &str) -> u16 {
        match &self.way.nodes {
            Nodes::One(_) => 0,
            Nodes::Cluster(_) => slot(key),
        }
    }

    /// How often commands of this side began to be turned away.
    pub fn open_count(&self, side: Side) -> u64 {
        self.way.open_count[side as usize].load(Ordering::Relaxed)
    }

    /// Its connections.
    pub fn state(&self) -> PoolState {
        match &self.way.nodes {
            Nodes::One(node) => node.state(self.lane),
            Nodes::Cluster(cluster) => cluster.state(self.lane),
        }
    }

    /// Sends one command that concerns `key`.
    ///
    /// # Errors
    /// [`NoAnswer`]; never later than `redis.timeout_ms` after the call.
    pub async fn send(&self, side: Side, key: &str, command: Cmd) -> Result<Value, NoAnswer> {
        let reply = self.exchange(side, [(key, command)].into_iter(), self.deadline()).await?.pop();
        Ok(reply.unwrap_or_else(|| Err(unexpected("no reply to a command")))?)
    }

    /// When an answer must be there to what is asked now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.way.timeout
    }

    /// Sends commands, each with the key it concerns, at once; each has a result of its own, in
    /// the same order.
    ///
    /// # Errors
    /// [`NoAnswer`], when nothing is known of any of them; never later than `deadline`.
    pub(super) async fn exchange<'a>(
        &self,
        side: Side,
        commands: impl ExactSizeIterator<Item = (&'a str, Cmd)>,
        deadline: Instant,
    ) -> Result<Replies, NoAnswer> {
        match &self.way.nodes {
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
