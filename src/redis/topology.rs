//! What is known of a cluster's nodes, and how it is kept true.
//!
//! Nobody's request waits for that, but the very first: whoever meets a node that has moved, or
//! that does not answer, asks for another look, which a task of its own takes. Several nodes are
//! asked side by side, on new connections, the configured ones among them, whose names are
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

use super::answer::{RedisFailure, unexpected};
use super::dial::dial;
use super::manager::Endpoint;
use super::node::{Node, Settings};
use super::servers::Server;
use super::slots::{Address, Map, SLOTS};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Nodes asked in one look, besides the configured ones.
const ASKED: usize = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Topology {
    /// One of the configured nodes; all others are like it.
    seed: Server,
    others: Vec<Server>,
    settings: Settings,
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    known: watch::Sender<Known>,
    looking: Mutex<Looking>,
}

/// What the last look came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) view: Option<Arc<View>>,
    /// Whether it found nothing.
    pub(super) in_vain: bool,
}

/// Who has which slots.
#[derive(Debug)]
pub(super) struct View {
    /// The primaries.
    pub(super) nodes: Vec<Arc<Node>>,
    /// For each slot, the place of its primary among them.
    places: Box<[u16]>,
    map: Map,
}

#[derive(Debug, Default)]
struct Looking {
    now: bool,
    ended: Option<Instant>,
}

impl View {
    /// The primary of a slot.
    pub(super) fn of(&self, slot: u16) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(self.places[usize::from(slot % SLOTS)]))
    }

    fn addresses(&self) -> Vec<&Address> {
        let mut all: Vec<_> = self.map.ranges.iter().map(|(.., address)| address).collect();
        all.sort();
        all.dedup();
        all
    }
}

impl Topology {
    pub(super) fn new(seed: Server, others: Vec<Server>, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            seed,
            others,
            settings,
            nodes: Mutex::default(),
            known: watch::Sender::new(Known::default()),
            looking: Mutex::default(),
        })
    }

    pub(super) fn known(&self) -> Known {
        self.known.borrow().clone()
    }

    /// Who has which slots. Waits only as long as nobody has looked yet.
    ///
    /// # Errors
    /// [`RedisFailure`], as long as no node could say.
    pub(super) async fn view(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<Arc<View>, RedisFailure> {
        let Known { view, in_vain } = self.known();
        if let Some(view) = view {
            return Ok(view);
        }
        let mut changes = self.known.subscribe();
        self.look_again();
        if in_vain {
            return Err(RedisFailure::CircuitOpen);
        }
        let looked = changes.wait_for(|known| known.view.is_some() || known.in_vain);
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
    pub(super) fn look_again(self: &Arc<Self>) {
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
            let _ended = Ended(&topology);
            topology.look().await;
        });
    }

    async fn look(&self) {
        let before = self.known().view;
        let found = self.best_map(before.as_deref()).await;
        let Some(map) = found else {
            let first = self.known.send_replace(Known { view: before.clone(), in_vain: true });
            if before.is_none() && !first.in_vain {
                tracing::warn!("redis cluster: no node tells who has which keys");
            }
            return;
        };
        let view = match before {
            Some(view) if view.map == map => view,
            _ => self.view_of(map),
        };
        self.known.send_replace(Known { view: Some(view), in_vain: false });
    }

    /// The best of what several nodes know. An old map is not worse than none.
    async fn best_map(&self, before: Option<&View>) -> Option<Map> {
        let mut primaries = before.map(View::addresses).unwrap_or_default();
        // Not always the same ones, for they may be those that are away.
        let start = getrandom::u32().unwrap_or(0) as usize % primaries.len().max(1);
        primaries.rotate_left(start);
        let primaries = primaries.into_iter().take(ASKED);
        let primaries: Vec<_> =
            primaries.map(|(host, port)| self.seed.moved(host, *port)).collect();
        let asked = std::iter::once(&self.seed).chain(&self.others).chain(&primaries);
        let answers = join_all(asked.map(|server| self.ask(server))).await;
        let mut best: Option<Map> = None;
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

    async fn ask(&self, server: &Server) -> RedisResult<Map> {
        let mut connection = dial(server, self.settings.timeout).await?;
        let mut questions = Pipeline::with_capacity(2);
        questions.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
        let answers = connection.req_packed_commands(&questions, 0, 2).await?;
        let [info, slots] = <[_; 2]>::try_from(answers).map_err(|_| unexpected("no answers"))?;
        let host = match &server.at {
            ConnectionAddr::Tcp(host, _) => host,
            _ => "",
        };
        Map::read(host, info.extract_error()?, slots.extract_error()?)
    }

    fn view_of(&self, map: Map) -> Arc<View> {
        let mut places = vec![u16::MAX; usize::from(SLOTS)].into_boxed_slice();
        let mut view = View { nodes: Vec::new(), places: Box::default(), map };
        let addresses: Vec<_> = view.addresses().into_iter().cloned().collect();
        for (place, address) in (0..).zip(&addresses) {
            for (first, last, _) in view.map.ranges.iter().filter(|(.., of)| of == address) {
                places[usize::from(*first)..=usize::from(*last)].fill(place);
            }
        }
        view.nodes = addresses.iter().map(|address| self.node(address.clone())).collect();
        view.places = places;
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
struct Ended<'a>(&'a Topology);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut looking = self.0.looking.lock().unwrap_or_else(PoisonError::into_inner);
        *looking = Looking { now: false, ended: Some(Instant::now()) };
    }
}
