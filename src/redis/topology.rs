//! What is known of a cluster's nodes, and how it is kept true.
//!
//! Nobody's request waits for that, but the very first: whoever meets a node that has moved, or
//! that does not answer, asks for another look, which a task of its own takes. Several nodes are
//! asked mode by mode, on new connections, the configured ones among them, whose names are
//! resolved anew; of their answers the one counts that says that the cluster works, and knows of
//! the latest change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::ConnectionLike;
use redis::{ConnectionAddr, Pipeline, RedisResult};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::dial::dial;
use super::failure::{RedisFailure, unexpected};
use super::manager::Endpoint;
use super::node::{Node, NodeSettings};
use super::servers::Server;
use super::slots::{Address, ClusterReport, SLOTS};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Nodes asked in one look, besides the configured ones.
const ASKED: usize = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct ClusterTopology {
    /// One of the configured nodes; all others are like it.
    seed: Server,
    others: Vec<Server>,
    settings: NodeSettings,
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    known: watch::Sender<ClusterState>,
    looking: Mutex<TopologyPoll>,
}

/// What the last look came to.
#[derive(Debug, Clone, Default)]
pub(super) struct ClusterState {
    pub(super) view: Option<Arc<SlotOwners>>,
    /// Whether it found nothing.
    pub(super) poll_failed: bool,
}

/// Who has which slots.
#[derive(Debug)]
pub(super) struct SlotOwners {
    /// The primaries.
    pub(super) nodes: Vec<Arc<Node>>,
    /// For each slot, the place of its primary among them.
    owner_indices: Box<[u16]>,
    map: ClusterReport,
}

#[derive(Debug, Default)]
struct TopologyPoll {
    now: bool,
    ended: Option<Instant>,
}

impl SlotOwners {
    /// The primary of a slot.
    pub(super) fn of(&self, slot: u16) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(self.owner_indices[usize::from(slot % SLOTS)]))
    }

    fn addresses(&self) -> Vec<&Address> {
        let mut all: Vec<_> = self.map.ranges.iter().map(|(.., address)| address).collect();
        all.sort();
        all.dedup();
        all
    }
}

impl ClusterTopology {
    pub(super) fn new(seed: Server, others: Vec<Server>, settings: NodeSettings) -> Arc<Self> {
        Arc::new(Self {
            seed,
            others,
            settings,
            nodes: Mutex::default(),
            known: watch::Sender::new(ClusterState::default()),
            looking: Mutex::default(),
        })
    }

    pub(super) fn known(&self) -> ClusterState {
        self.known.borrow().clone()
    }

    /// Who has which slots. Waits only as long as nobody has looked yet.
    ///
    /// # Errors
    /// [`RedisFailure`], as long as no node could say.
    pub(super) async fn view(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<Arc<SlotOwners>, RedisFailure> {
        let ClusterState { view, poll_failed } = self.known();
        if let Some(view) = view {
            return Ok(view);
        }
        let mut changes = self.known.subscribe();
        self.poll_soon();
        if poll_failed {
            return Err(RedisFailure::CircuitOpen);
        }
        let looked = changes.wait_for(|known| known.view.is_some() || known.poll_failed);
        match timeout_at(deadline, looked).await {
            Ok(Ok(known)) => known.view.clone().ok_or(RedisFailure::CircuitOpen),
            Ok(Err(_)) | Err(_) => Err(RedisFailure::Timeout),
        }
    }

    /// The node at an address, also where the last look did not find it.
    pub(super) fn node(&self, address: Address) -> Arc<Node> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let make = |(host, port): &Address| {
            let place = Endpoint::Server(self.seed.moved(host, *port));
            Arc::new(Node::new(&format!("redis {host}:{port}"), &place, &self.settings))
        };
        Arc::clone(nodes.entry(address).or_insert_with_key(make))
    }

    /// Asks for another look, unless one is under way or has just ended.
    pub(super) fn poll_soon(self: &Arc<Self>) {
        {
            let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
            if looking.now || looking.ended.is_some_and(|at| at.elapsed() < PAUSE) {
                return;
            }
            looking.now = true;
        }
        let topology = Arc::clone(self);
        tokio::spawn(async move {
            // Also when it crashes, the next may look.
            let _ended = TopologyPollGuard(&topology);
            topology.look().await;
        });
    }

    async fn look(&self) {
        let before = self.known().view;
        let found = self.best_map(before.as_deref()).await;
        let Some(map) = found else {
            let first =
                self.known.send_replace(ClusterState { view: before.clone(), poll_failed: true });
            if before.is_none() && !first.poll_failed {
                tracing::warn!("redis cluster: no node tells who has which keys");
            }
            return;
        };
        let view = match before {
            Some(view) if view.map == map => view,
            _ => self.view_of(map),
        };
        self.known.send_replace(ClusterState { view: Some(view), poll_failed: false });
    }

    /// The best of what several nodes know. An old map is not worse than none.
    async fn best_map(&self, before: Option<&SlotOwners>) -> Option<ClusterReport> {
        let mut primaries = before.map(SlotOwners::addresses).unwrap_or_default();
        // Not always the same ones, for they may be those that are away.
        let start = getrandom::u32().unwrap_or(0) as usize % primaries.len().max(1);
        primaries.rotate_left(start);
        let primaries = primaries.into_iter().take(ASKED);
        let primaries: Vec<_> =
            primaries.map(|(host, port)| self.seed.moved(host, *port)).collect();
        let asked = std::iter::once(&self.seed).chain(&self.others).chain(&primaries);
        let answers = join_all(asked.map(|server| self.ask(server))).await;
        let mut best: Option<ClusterReport> = None;
        for answer in answers {
            match answer {
                Ok(map) if best.as_ref().is_none_or(|best| map.is_better_than(best)) => {
                    best = Some(map);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "a redis node did not tell of its cluster");
                    self.settings.connect_errors.make(&error);
                }
            }
        }
        best
    }

    async fn ask(&self, server: &Server) -> RedisResult<ClusterReport> {
        let mut connection = dial(server, self.settings.timeout).await?;
        let mut questions = Pipeline::with_capacity(2);
        questions.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
        let answers = connection.req_packed_commands(&questions, 0, 2).await?;
        let [info, slots] = <[_; 2]>::try_from(answers).map_err(|_| unexpected("no answers"))?;
        let host = match &server.at {
            ConnectionAddr::Tcp(host, _) => host,
            _ => "",
        };
        ClusterReport::read(host, info.extract_error()?, slots.extract_error()?)
    }

    fn view_of(&self, map: ClusterReport) -> Arc<SlotOwners> {
        let mut owner_indices = vec![u16::MAX; usize::from(SLOTS)].into_boxed_slice();
        let mut view = SlotOwners { nodes: Vec::new(), owner_indices: Box::default(), map };
        let addresses: Vec<_> = view.addresses().into_iter().cloned().collect();
        for (place, address) in (0..).zip(&addresses) {
            for (first, last, _) in view.map.ranges.iter().filter(|(.., of)| of == address) {
                owner_indices[usize::from(*first)..=usize::from(*last)].fill(place);
            }
        }
        view.nodes = addresses.iter().map(|address| self.node(address.clone())).collect();
        view.owner_indices = owner_indices;
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|address, _| addresses.contains(address));
        drop(nodes);
        let primaries: Vec<_> =
            addresses.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        tracing::info!(epoch = view.map.epoch, primaries = %primaries.join(" "), "redis cluster");
        Arc::new(view)
    }
}

/// The end of a look.
struct TopologyPollGuard<'a>(&'a ClusterTopology);

impl Drop for TopologyPollGuard<'_> {
    fn drop(&mut self) {
        let mut looking = self.0.looking.lock().unwrap_or_else(PoisonError::into_inner);
        *looking = TopologyPoll { now: false, ended: Some(Instant::now()) };
    }
}
