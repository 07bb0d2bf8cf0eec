//! Sends commands to Redis in any topology. Within `redis.timeout_ms` a caller gets a reply or a
//! [`RedisFailure`], and then continues without Redis.

use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Cmd, RedisResult, Value};
use tokio::time::Instant;

use super::availability::AccessMode;
use super::failure::{RedisFailure, Replies};
use super::manager::Endpoint;
use super::node::Node;
use super::node_pool::{NodeSettings, PoolKind, RoundTrips};
use super::servers::Servers;
use super::slots::slot;
use super::topology::{Cluster, ClusterState};
use crate::ops::PoolState;

/// The size of the pool that the rate limits use: they send one exchange at a time, and the other
/// connection replaces one that breaks.
const COUNTERS_SIZE: u32 = 2;

/// The size of the pool for large values: as many as are sent at once.
const LARGE_SIZE: u32 = 2;

/// Connection pools with circuit breakers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RedisPool {
    pools: Arc<RedisPools>,
    kind: PoolKind,
}

#[derive(Debug)]
struct RedisPools {
    nodes: RedisNodes,
    timeout: Duration,
    open_count: [Arc<AtomicU64>; 2],
    round_trips: [Arc<RoundTrips>; 3],
}

#[derive(Debug)]
enum RedisNodes {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

/// Which keys have a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coverage {
    All,
    Partial,
    None,
}

impl RedisNodes {
    /// Calls `read` with the nodes that are known, and which keys have one. Before its first poll, a
    /// cluster has no nodes and counts as [`Coverage::All`].
    fn with_nodes<T>(&self, read: impl FnOnce(&[Arc<Node>], Coverage) -> T) -> T {
        match self {
            Self::One(node) => read(std::slice::from_ref(node), Coverage::All),
            Self::Cluster(cluster) => match cluster.state() {
                ClusterState { owners: Some(owners), .. } => {
                    let coverage = match (&*owners.nodes, owners.has_gaps) {
                        ([], _) => Coverage::None,
                        (_, true) => Coverage::Partial,
                        (_, false) => Coverage::All,
                    };
                    read(&owners.nodes, coverage)
                }
                ClusterState { poll_failed: true, .. } => read(&[], Coverage::None),
                ClusterState { poll_failed: false, .. } => read(&[], Coverage::All),
            },
        }
    }
}

impl RedisPool {
    /// A pool of up to `size` connections to each node for small commands, made when they are first
    /// needed. Does no I/O; must be called on a runtime.
    pub fn new(servers: Servers, size: u32, timeout: Duration) -> Self {
        let settings = NodeSettings {
            sizes: [COUNTERS_SIZE, size, LARGE_SIZE],
            timeout,
            ..NodeSettings::default()
        };
        let (open_count, round_trips) = (settings.open_count.clone(), settings.round_trips.clone());
        let one = |endpoint| RedisNodes::One(Arc::new(Node::new("redis", &endpoint, &settings)));
        let nodes = match servers {
            Servers::Single(server) => one(Endpoint::Server(server)),
            Servers::Sentinel(sentinels) => one(Endpoint::Primary(sentinels)),
            Servers::Cluster { node, others } => {
                RedisNodes::Cluster(Cluster::new(node, others, settings))
            }
        };
        let pools = Arc::new(RedisPools { nodes, timeout, open_count, round_trips });
        Self { pools, kind: PoolKind::Small }
    }

    /// The pool of the same Redis for commands that count requests. It shares the circuit breakers.
    #[must_use]
    pub fn for_counters(&self) -> Self {
        self.of_kind(PoolKind::Counters)
    }

    /// The pool of the same Redis for large values. It shares the circuit breakers. While too many
    /// wait, those that have waited longest are given up.
    #[must_use]
    pub fn for_large_values(&self) -> Self {
        self.of_kind(PoolKind::Large)
    }

    fn of_kind(&self, kind: PoolKind) -> Self {
        Self { pools: Arc::clone(&self.pools), kind }
    }

    /// Whether all commands of this mode are rejected at the moment.
    pub fn is_unavailable(&self, mode: AccessMode) -> bool {
        self.pools.nodes.with_nodes(|nodes, coverage| {
            coverage == Coverage::None
                || (!nodes.is_empty() && nodes.iter().all(|node| node.is_unavailable(mode)))
        })
    }

    /// Whether commands of this mode are sent for every key.
    pub fn is_fully_available(&self, mode: AccessMode) -> bool {
        self.pools.nodes.with_nodes(|nodes, coverage| {
            coverage == Coverage::All && !nodes.iter().any(|node| node.is_unavailable(mode))
        })
    }

    /// A key on each unavailable node, among those that `key` makes from numbers.
    pub(super) fn probe_keys(&self, mode: AccessMode, key: impl Fn(u32) -> String) -> Vec<String> {
        match &self.pools.nodes {
            RedisNodes::One(node) => {
                node.is_unavailable(mode).then(|| key(0)).into_iter().collect()
            }
            RedisNodes::Cluster(cluster) => cluster.probe_keys(mode, key),
        }
    }

    /// The shard of a key: its slot in a cluster, else 0. Shards can fail independently.
    pub fn shard(&self, key: &str) -> u16 {
        match &self.pools.nodes {
            RedisNodes::One(_) => 0,
            RedisNodes::Cluster(_) => slot(key),
        }
    }

    /// The position of a key's node among the nodes of a cluster, as far as it is known, else 0.
    pub fn node_index(&self, key: impl FnOnce() -> String) -> usize {
        match &self.pools.nodes {
            RedisNodes::One(_) => 0,
            RedisNodes::Cluster(cluster) => cluster.node_index(slot(&key())).unwrap_or_default(),
        }
    }

    /// How often circuit breakers for this mode have opened.
    pub fn open_count(&self, mode: AccessMode) -> u64 {
        self.pools.open_count[mode as usize].load(Ordering::Relaxed)
    }

    /// The round trips over connections of this pool, those that succeeded and those that failed.
    pub fn round_trips(&self) -> [u64; 2] {
        let RoundTrips { ok, failed } = &*self.pools.round_trips[self.kind as usize];
        [ok, failed].map(|count| count.load(Ordering::Relaxed))
    }

    /// The connections of this pool, to all nodes together.
    pub fn state(&self) -> PoolState {
        self.pools.nodes.with_nodes(|nodes, _| {
            let states = nodes.iter().map(|node| node.state(self.kind));
            states.fold(PoolState::default(), PoolState::add)
        })
    }

    /// The names of all known servers, with their replies to a command about the server itself; `None`
    /// if a server does not reply.
    pub(super) async fn ask_servers(
        &self,
        command: Cmd,
    ) -> Vec<(Arc<str>, Option<RedisResult<Value>>)> {
        let nodes = self.pools.nodes.with_nodes(|nodes, _| nodes.to_vec());
        let deadline = self.deadline();
        let asked = nodes.iter().map(async |node| {
            let replies = node.ask(self.kind, command.clone(), deadline).await;
            (Arc::clone(&node.name), replies.ok().and_then(|mut replies| replies.pop()))
        });
        join_all(asked).await
    }

    /// The deadline of commands that are sent now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.pools.timeout
    }

    /// Sends commands, each with the key that it reads or writes, in one exchange. The replies are
    /// in the order of the commands.
    ///
    /// # Errors
    /// [`RedisFailure`] when no command has a reply; never later than `deadline`, except that large
    /// values may first wait for others.
    pub(super) async fn exchange<'a>(
        &self,
        mode: AccessMode,
        commands: impl ExactSizeIterator<Item = (&'a str, Cmd)>,
        deadline: Instant,
    ) -> Result<Replies, RedisFailure> {
        match &self.pools.nodes {
            RedisNodes::One(node) => {
                let commands = commands.map(|(_, command)| command).collect();
                node.send(self.kind, mode, commands, deadline).await
            }
            RedisNodes::Cluster(cluster) => {
                let keyed = commands.map(|(key, command)| (slot(key), command)).collect();
                cluster.send(self.kind, mode, keyed, deadline).await
            }
        }
    }
}
