//! A Redis Cluster: three primaries with a replica each.

use std::time::Duration;

use super::free_port;
use super::process::{Launch, find_program};
use super::redis::RedisServer;
use super::wait::{eventually, until};

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The first and last slot, and their owner: host, port, node id.
type Range = (u16, u16, (String, u16, String));

/// The servers of the cluster. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct RedisCluster {
    pub(crate) nodes: Vec<RedisServer>,
}

impl RedisCluster {
    pub(crate) async fn start() -> Self {
        let mut nodes = Vec::new();
        for _ in 0..6 {
            let bus = free_port().to_string();
            let args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500"];
            nodes.push(RedisServer::start(&[&args[..], &["--cluster-port", &bus]].concat()).await);
        }
        let cli = Launch::new("redis-cli", find_program("redis-cli"))
            .args(["--cluster", "create"])
            .args(nodes.iter().map(RedisServer::addr))
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .start();
        let status = cli.wait_exit(START_TIMEOUT).await;
        assert!(status.success(), "{}", cli.report());
        let cluster = Self { nodes };
        for node in &cluster.nodes {
            eventually(START_TIMEOUT, "a node is ready", || async {
                let info: String = node.command(&["CLUSTER", "INFO"]).await;
                let link: String = node.command(&["INFO", "replication"]).await;
                let paired = ["master_link_status:up", "connected_slaves:1"];
                info.contains("cluster_state:ok") && paired.iter().any(|is| link.contains(is))
            })
            .await;
        }
        cluster
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// The slot of a key.
    pub(crate) async fn slot(&self, key: &str) -> u16 {
        for node in &self.nodes {
            if let Ok(slot) = node.try_command(&["CLUSTER", "KEYSLOT", key]).await {
                return slot;
            }
        }
        panic!("no node responds")
    }

    /// The primary of a slot, as `witness` reports it: its index among the nodes.
    pub(crate) async fn primary_of(&self, slot: u16, witness: usize) -> usize {
        let (_, _, (_, port, _)) = self.range(slot, witness).await;
        self.nodes.iter().position(|node| node.port() == port).unwrap()
    }

    /// The indices of all primaries, as `witness` reports them.
    pub(crate) async fn primaries(&self, witness: usize) -> Vec<usize> {
        let mut found = Vec::new();
        for (first, ..) in self.ranges(witness).await {
            let primary = self.primary_of(first, witness).await;
            if !found.contains(&primary) {
                found.push(primary);
            }
        }
        found
    }

    /// Waits until a node other than `lost` owns the slot, and the cluster is operational.
    pub(crate) async fn taken_over(&self, slot: u16, lost: usize) -> usize {
        let witness = (lost + 1) % self.nodes.len();
        until(START_TIMEOUT, "a replica has taken over", || async {
            let info: String = self.nodes[witness].command(&["CLUSTER", "INFO"]).await;
            let now = self.primary_of(slot, witness).await;
            (now != lost && info.contains("cluster_state:ok")).then_some(now)
        })
        .await
    }

    /// Every key that begins with `prefix`, with its time to live in milliseconds.
    pub(crate) async fn keys(&self, prefix: &str) -> Vec<(String, i64)> {
        let mut found = Vec::new();
        for primary in self.primaries(0).await {
            for key in self.nodes[primary].keys(prefix).await {
                let left = self.nodes[primary].command(&["PTTL", &key]).await;
                found.push((key, left));
            }
        }
        found
    }

    /// Begins to move a slot: its keys may be at either node from now on.
    pub(crate) async fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let [at, source, target] = [slot.to_string(), self.id(from).await, self.id(to).await];
        let words = ["CLUSTER", "SETSLOT", &at, "IMPORTING", &source];
        let () = self.nodes[to].command(&words).await;
        let words = ["CLUSTER", "SETSLOT", &at, "MIGRATING", &target];
        let () = self.nodes[from].command(&words).await;
    }

    /// Moves the slot's existing keys, and completes the move.
    pub(crate) async fn end_move(&self, slot: u16, from: usize, to: usize) {
        let (at, target) = (slot.to_string(), self.id(to).await);
        let port = self.nodes[to].port().to_string();
        loop {
            let words = ["CLUSTER", "GETKEYSINSLOT", &at, "100"];
            let keys: Vec<String> = self.nodes[from].command(&words).await;
            if keys.is_empty() {
                break;
            }
            for key in keys {
                let words = ["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"];
                let _: String = self.nodes[from].command(&words).await;
            }
        }
        for node in [to, from] {
            let words = ["CLUSTER", "SETSLOT", &at, "NODE", &target];
            let () = self.nodes[node].command(&words).await;
        }
    }

    /// Takes a slot from its primary, so that no node has it.
    pub(crate) async fn unassign(&self, slot: u16) {
        let at = slot.to_string();
        eventually(START_TIMEOUT, "no node has the slot", || async {
            let mut is_assigned = false;
            for (witness, node) in self.nodes.iter().enumerate() {
                // An error where the node knows of no primary of the slot.
                drop(node.try_command::<()>(&["CLUSTER", "DELSLOTS", &at]).await);
                let mut ranges = self.ranges(witness).await.into_iter();
                is_assigned |= ranges.any(|(first, last, _)| (first..=last).contains(&slot));
            }
            !is_assigned
        })
        .await;
    }

    /// Gives a slot that no node has to a primary.
    pub(crate) async fn assign(&self, slot: u16, node: usize) {
        let () = self.nodes[node].command(&["CLUSTER", "ADDSLOTS", &slot.to_string()]).await;
    }

    async fn id(&self, node: usize) -> String {
        self.nodes[node].command(&["CLUSTER", "MYID"]).await
    }

    async fn range(&self, slot: u16, witness: usize) -> Range {
        let mut ranges = self.ranges(witness).await.into_iter();
        ranges.find(|(first, last, _)| (*first..=*last).contains(&slot)).unwrap()
    }

    async fn ranges(&self, witness: usize) -> Vec<Range> {
        let slots: Vec<Vec<redis::Value>> =
            self.nodes[witness].command(&["CLUSTER", "SLOTS"]).await;
        let read = |range: Vec<redis::Value>| {
            let [first, last, primary] = <[_; 3]>::try_from(range[..3].to_vec()).unwrap();
            let redis::Value::Array(primary) = primary else { panic!("{primary:?}") };
            let [host, port, id] = <[_; 3]>::try_from(primary[..3].to_vec()).unwrap();
            let number = |value| redis::from_redis_value::<u16>(value).unwrap();
            let text = |value| redis::from_redis_value::<String>(value).unwrap();
            (number(first), number(last), (text(host), number(port), text(id)))
        };
        slots.into_iter().map(read).collect()
    }
}
