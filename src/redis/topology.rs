//! Polls a cluster's nodes for which of them has which slots.
//!
//! Only the very first request waits for a poll. A later request that is redirected or fails starts
//! one, which runs in a task of its own. A poll asks several nodes in parallel on new
//! connections, always including the configured ones, whose names are resolved for each poll. The
//! report of a working cluster with the newest configuration wins.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::ConnectionLike;
use redis::{ConnectionAddr, Pipeline, RedisResult};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::dial::dial;
use super::failure::{RedisFailure, unexpected};
use super::manager::Endpoint;
use super::node::Node;
use super::node_pool::NodeSettings;
use super::servers::Server;
use super::slots::{Address, ClusterReport, SLOTS};
use crate::sync::lock;
use crate::sync::supervised::{contain, register};

/// The minimal time from the end of one poll to the start of the next.
const MIN_PAUSE: Duration = Duration::from_millis(250);

/// The maximal number of nodes that one poll asks, besides the configured ones.
const MAX_POLLED_PRIMARIES: usize = 4;

/// The name of the task that polls.
const POLLS: &str = "redis_cluster_polls";

/// A cluster: its nodes, and what the last poll found.
#[derive(Debug)]
pub(super) struct Cluster {
    /// The first configured node. Nodes that it reports get its login and TLS settings.
    seed: Server,
    others: Vec<Server>,
    settings: NodeSettings,
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    state: watch::Sender<ClusterState>,
    /// The newest poll, which lasts until the next one may start.
    poll: Mutex<Option<JoinHandle<()>>>,
}

/// The result of the polls so far.
#[derive(Debug, Clone, Default)]
pub(super) struct ClusterState {
    /// From the last successful poll.
    pub(super) owners: Option<Arc<SlotOwners>>,
    /// Whether no node reported in the last poll.
    pub(super) poll_failed: bool,
}

/// Which primary has which slots.
#[derive(Debug)]
pub(super) struct SlotOwners {
    /// The primaries.
    pub(super) nodes: Vec<Arc<Node>>,
    /// Whether there are slots without a primary.
    pub(super) has_gaps: bool,
    /// The primary of each slot.
    by_slot: Vec<Option<Arc<Node>>>,
    report: ClusterReport,
}

impl SlotOwners {
    /// The primary of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        self.by_slot.get(usize::from(slot))?.as_ref()
    }
}

impl Cluster {
    pub(super) fn new(seed: Server, others: Vec<Server>, settings: NodeSettings) -> Arc<Self> {
        register(POLLS);
        Arc::new(Self {
            seed,
            others,
            settings,
            nodes: Mutex::default(),
            state: watch::Sender::new(ClusterState::default()),
            poll: Mutex::default(),
        })
    }

    pub(super) fn state(&self) -> ClusterState {
        self.state.borrow().clone()
    }

    /// Which primary has which slots. Waits for the first poll, and for no other.
    ///
    /// # Errors
    /// [`RedisFailure`] as long as no node has reported.
    pub(super) async fn owners(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<Arc<SlotOwners>, RedisFailure> {
        let ClusterState { owners, poll_failed } = self.state();
        if let Some(owners) = owners {
            return Ok(owners);
        }
        let mut changes = self.state.subscribe();
        self.poll_soon();
        if poll_failed {
            return Err(RedisFailure::CircuitOpen);
        }
        let polled = changes.wait_for(|state| state.owners.is_some() || state.poll_failed);
        match timeout_at(deadline, polled).await {
            Ok(Ok(state)) => state.owners.clone().ok_or(RedisFailure::CircuitOpen),
            Ok(Err(_)) | Err(_) => Err(RedisFailure::Timeout),
        }
    }

    /// The position of a slot's primary among the primaries.
    pub(super) fn node_index(&self, slot: u16) -> Option<usize> {
        let owners = self.state().owners?;
        let owner = owners.owner(slot)?;
        owners.nodes.iter().position(|node| Arc::ptr_eq(node, owner))
    }

    /// The node at an address, even if the last poll did not find it.
    pub(super) fn node(&self, address: Address) -> Arc<Node> {
        let mut nodes = lock(&self.nodes);
        let make = |(host, port): &Address| {
            let endpoint = Endpoint::Server(self.seed.moved(host, *port));
            Arc::new(Node::new(&format!("redis {host}:{port}"), &endpoint, &self.settings))
        };
        Arc::clone(nodes.entry(address).or_insert_with_key(make))
    }

    /// Starts a poll, unless one is running or has just ended.
    pub(super) fn poll_soon(self: &Arc<Self>) {
        let mut poll = lock(&self.poll);
        if poll.as_ref().is_none_or(JoinHandle::is_finished) {
            let cluster = Arc::clone(self);
            *poll = Some(tokio::spawn(async move {
                cluster.poll_nodes().await;
                sleep(MIN_PAUSE).await;
            }));
        }
    }

    async fn poll_nodes(&self) {
        let ClusterState { owners: previous, poll_failed } = self.state();
        // After a panic as if no node had reported.
        let polled = contain(POLLS, self.poll_owners(previous.as_ref())).await.flatten();
        let state = match polled {
            Some(owners) => ClusterState { owners: Some(owners), poll_failed: false },
            None => {
                if previous.is_none() && !poll_failed {
                    tracing::warn!(
                        "no node of the redis cluster reports its slots; \
                         each request starts another poll"
                    );
                }
                ClusterState { owners: previous, poll_failed: true }
            }
        };
        self.state.send_replace(state);
    }

    /// By the best report. `None` if no node reports.
    async fn poll_owners(&self, previous: Option<&Arc<SlotOwners>>) -> Option<Arc<SlotOwners>> {
        let report = self.best_report(previous.map(Arc::as_ref)).await?;
        let unchanged = previous.filter(|owners| owners.report == report).cloned();
        Some(unchanged.unwrap_or_else(|| self.owners_of(report)))
    }

    /// The best report of several nodes, even if its cluster is not working.
    async fn best_report(&self, previous: Option<&SlotOwners>) -> Option<ClusterReport> {
        let primaries = previous.map(|owners| owners.report.primaries()).unwrap_or_default();
        let mut primaries = Vec::from_iter(primaries);
        // A random selection, since always the same ones may be unavailable.
        let start = getrandom::u32().unwrap_or(0) as usize % primaries.len().max(1);
        primaries.rotate_left(start);
        let primaries = primaries.into_iter().take(MAX_POLLED_PRIMARIES);
        let primaries: Vec<_> =
            primaries.map(|(host, port)| self.seed.moved(host, *port)).collect();
        let asked = std::iter::once(&self.seed).chain(&self.others).chain(&primaries);
        let reports = join_all(asked.map(|server| ask(server, self.settings.timeout))).await;
        let mut best: Option<ClusterReport> = None;
        for report in reports {
            match report {
                Ok(report) if best.as_ref().is_none_or(|best| report.is_better_than(best)) => {
                    best = Some(report);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "a redis node did not report its cluster");
                    self.settings.connect_errors.record(&error);
                }
            }
        }
        best
    }

    fn owners_of(&self, report: ClusterReport) -> Arc<SlotOwners> {
        let mut by_slot = vec![None; usize::from(SLOTS)];
        for (first, last, address) in &report.ranges {
            let node = self.node(address.clone());
            by_slot[usize::from(*first)..=usize::from(*last)].fill(Some(node));
        }
        let primaries = report.primaries();
        lock(&self.nodes).retain(|address, _| primaries.contains(address));
        let nodes = primaries.iter().map(|address| self.node((*address).clone())).collect();
        let names: Vec<_> = primaries.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        tracing::info!(epoch = report.epoch, primaries = %names.join(" "), "redis cluster");
        let gaps = by_slot.iter().filter(|owner| owner.is_none()).count();
        if gaps > 0 {
            tracing::warn!(
                slots = gaps,
                "slots of the redis cluster have no primary; continuing without redis for their keys"
            );
        }
        Arc::new(SlotOwners { nodes, has_gaps: gaps > 0, by_slot, report })
    }
}

/// The report of one node, on a new connection.
pub(super) async fn ask(server: &Server, timeout: Duration) -> RedisResult<ClusterReport> {
    let mut connection = dial(server, timeout).await?;
    let mut commands = Pipeline::with_capacity(2);
    commands.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let replies = connection.req_packed_commands(&commands, 0, 2).await?;
    let [info, slots] =
        <[_; 2]>::try_from(replies).map_err(|_| unexpected("expected two replies"))?;
    let host = match &server.address {
        ConnectionAddr::Tcp(host, _) => host,
        _ => "",
    };
    ClusterReport::read(host, info.extract_error()?, slots.extract_error()?)
}
