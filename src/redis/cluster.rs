//! Commands to a cluster: each to the primary that has its key, those of one node in one round
//! trip, the nodes side by side.
//!
//! The library's own client for clusters is not used: it tries again by itself, unbounded by our
//! deadline, asks for the slots before a request that a caller waits for, and does not tell which
//! node failed. Here each node has its own pools and breakers, as a single server has: a node that
//! is away costs nothing to the keys of the others.

use std::sync::Arc;

use futures_util::future::join_all;
use redis::{Cmd, ErrorKind, Pipeline, RedisResult, ServerErrorKind, Value};
use tokio::time::Instant;

use super::answer::{RedisFailure, Replies, unexpected};
use super::dial::host_and_port;
use super::node::{AccessMode, Lane, Node};
use super::probes::MOST_KEYS;
use super::slots::slot;
use super::topology::{Topology, View};
use crate::ops::PoolState;

/// How often a command follows a key to another node.
const MOST_MOVES: usize = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Cluster(Arc<Topology>);

/// A command under way.
#[derive(Debug)]
struct PendingCommand {
    /// Its place among all that were sent together.
    place: usize,
    command: Cmd,
    node: Arc<Node>,
    /// Whether the node does not own the key's slot yet.
    asking: bool,
}

impl Cluster {
    pub(super) fn new(topology: Arc<Topology>) -> Self {
        Self(topology)
    }

    /// Whether no command of this side is sent at the moment.
    pub(super) fn is_unavailable(&self, side: AccessMode) -> bool {
        self.nodes(|nodes| nodes.iter().all(|node| node.is_unavailable(side)), true)
    }

    /// Whether commands of this side are sent, whatever their keys.
    pub(super) fn is_fully_available(&self, side: AccessMode) -> bool {
        self.nodes(|nodes| !nodes.iter().any(|node| node.is_unavailable(side)), false)
    }

    /// A key for each node that is away; any key, where no node is known though they were asked.
    pub(super) fn probe_keys(&self, side: AccessMode, key: impl Fn(u32) -> String) -> Vec<String> {
        let known = self.0.known();
        let Some(view) = known.view else {
            return known.in_vain.then(|| key(0)).into_iter().collect();
        };
        let of = |node: &Arc<Node>| {
            let is_its = |key: &String| view.of(slot(key)).is_some_and(|of| Arc::ptr_eq(of, node));
            (0..MOST_KEYS).map(&key).find(is_its)
        };
        view.nodes.iter().filter(|node| node.is_unavailable(side)).filter_map(of).collect()
    }

    /// Before the first look it is taken to be there.
    fn nodes(&self, judge: impl FnOnce(&[Arc<Node>]) -> bool, in_vain: bool) -> bool {
        let known = self.0.known();
        match known.view {
            Some(view) => judge(&view.nodes),
            None => known.in_vain == in_vain,
        }
    }

    /// The connections of a lane to all nodes.
    pub(super) fn state(&self, lane: Lane) -> PoolState {
        let view = self.0.known().view;
        let nodes = view.iter().flat_map(|view| &view.nodes);
        nodes.map(|node| node.state(lane)).fold(PoolState::default(), |sum, one| PoolState {
            max: sum.max + one.max,
            size: sum.size + one.size,
            idle: sum.idle + one.idle,
            waiting: sum.waiting + one.waiting,
        })
    }

    /// Sends commands, each with its key's slot; each has a result of its own, in the same order.
    ///
    /// # Errors
    /// [`RedisFailure`], when nothing is known of any of them; never later than `deadline`.
    pub(super) async fn send(
        &self,
        lane: Lane,
        side: AccessMode,
        commands: Vec<(u16, Cmd)>,
        deadline: Instant,
    ) -> Result<Replies, RedisFailure> {
        let view = self.0.view(deadline).await?;
        let mut replies = Vec::with_capacity(commands.len());
        replies.resize_with(commands.len(), || Err(unexpected("no reply to a command")));
        let mut answered = false;
        let mut silence = None;
        let mut errands = self.errands(&view, commands);
        for moves in 0..=MOST_MOVES {
            let sent = by_node(std::mem::take(&mut errands));
            let sent = sent.into_iter().map(|group| self.send_group(lane, side, group, deadline));
            for (group, result) in join_all(sent).await {
                match result {
                    Ok(results) => {
                        answered = true;
                        for (errand, reply) in group.into_iter().zip(results) {
                            match self.follow(&reply) {
                                Some((node, asking)) if moves < MOST_MOVES => {
                                    errands.push(PendingCommand { node, asking, ..errand });
                                }
                                _ => replies[errand.place] = reply,
                            }
                        }
                    }
                    Err(error) => {
                        group.iter().for_each(|one| replies[one.place] = Err(error.of_one()));
                        silence = Some(error);
                    }
                }
            }
            if errands.is_empty() {
                break;
            }
        }
        match silence {
            Some(silence) if !answered => Err(silence),
            _ => Ok(replies),
        }
    }
}

impl Cluster {
    /// Commands and their nodes. A slot that nobody has is answered for by whoever comes first: it
    /// says so, or knows better.
    fn errands(&self, view: &View, commands: Vec<(u16, Cmd)>) -> Vec<PendingCommand> {
        let errand = |(place, (slot, command))| {
            let node = view.of(slot).or_else(|| view.nodes.first())?;
            Some(PendingCommand { place, command, node: Arc::clone(node), asking: false })
        };
        commands.into_iter().enumerate().filter_map(errand).collect()
    }

    async fn send_group(
        &self,
        lane: Lane,
        side: AccessMode,
        group: Vec<PendingCommand>,
        deadline: Instant,
    ) -> (Vec<PendingCommand>, Result<Replies, RedisFailure>) {
        let Some(node) = group.first().map(|errand| Arc::clone(&errand.node)) else {
            return (group, Ok(Vec::new()));
        };
        let mut pipeline = Pipeline::with_capacity(group.len());
        for errand in &group {
            if errand.asking {
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(errand.command.clone());
        }
        let sent = node.send(lane, side, pipeline, deadline).await;
        if sent.as_ref().is_err_and(|error| !matches!(error, RedisFailure::PoolExhausted)) {
            self.0.look_again();
        }
        let replies = sent.map(|replies| without_asking(&group, replies));
        (group, replies)
    }

    /// Where a command is to be sent instead, and whether that node has to be asked for a slot that
    /// it does not own yet. Neither has run it.
    fn follow(&self, reply: &RedisResult<Value>) -> Option<(Arc<Node>, bool)> {
        let error = reply.as_ref().err()?;
        let asking = match error.kind() {
            ErrorKind::Server(ServerErrorKind::Ask) => true,
            ErrorKind::Server(ServerErrorKind::Moved) => false,
            ErrorKind::Server(ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown) => {
                self.0.look_again();
                return None;
            }
            _ => return None,
        };
        if !asking {
            self.0.look_again();
        }
        let (address, _) = error.redirect_node()?;
        let (host, port) = host_and_port(address).filter(|(host, _)| !host.is_empty())?;
        Some((self.0.node((host.to_owned(), port)), asking))
    }
}

fn by_node(errands: Vec<PendingCommand>) -> Vec<Vec<PendingCommand>> {
    let mut groups: Vec<Vec<PendingCommand>> = Vec::new();
    for errand in errands {
        let same = |group: &&mut Vec<PendingCommand>| {
            group.first().is_some_and(|first| Arc::ptr_eq(&first.node, &errand.node))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(errand),
            None => groups.push(vec![errand]),
        }
    }
    groups
}

/// Leaves out the replies to what was sent before commands.
fn without_asking(group: &[PendingCommand], replies: Replies) -> Replies {
    let mut replies = replies.into_iter();
    let mut own = |errand: &PendingCommand| {
        if errand.asking {
            replies.next();
        }
        replies.next().unwrap_or_else(|| Err(unexpected("no reply to a command")))
    };
    group.iter().map(&mut own).collect()
}
