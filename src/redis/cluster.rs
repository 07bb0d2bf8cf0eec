//! Sends commands to a cluster: each to the primary that has its key. The commands of one node
//! share a round trip, and the nodes are used in parallel.
//!
//! The library's own cluster client is not used: it retries beyond our deadline, asks for the slots
//! while a caller waits, and does not report which node failed. Here each node has its own pools
//! and breakers, as a single server has, so an unavailable node does not delay the keys of the
//! others.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

use futures_util::future::join_all;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value, cmd};
use tokio::time::Instant;

use super::availability::AccessMode;
use super::dial::host_and_port;
use super::failure::{RedisFailure, Replies, unexpected};
use super::node::Node;
use super::node_pool::PoolKind;
use super::slots::slot;
use super::topology::{Cluster, ClusterState, SlotOwners};

/// The maximal number of times that a command is redirected to another node.
const MAX_REDIRECTS: usize = 4;

/// The maximal number of keys that are tried to find one that probes a node.
const MAX_PROBE_KEYS: u32 = 2_000;

/// A command that has no final reply yet.
#[derive(Debug)]
struct PendingCommand {
    /// Its index among the commands that are sent together.
    index: usize,
    command: Cmd,
    node: Arc<Node>,
    /// Whether the slot is being migrated to the node, which then needs `ASKING` first.
    asking: bool,
}

impl Cluster {
    /// A key for each unavailable node; any key if the polls have found no node at all. Starts a
    /// poll if there are slots without a node, which a key would hardly fall into.
    pub(super) fn probe_keys(
        self: &Arc<Self>,
        mode: AccessMode,
        key: impl Fn(u32) -> String,
    ) -> Vec<String> {
        let ClusterState { owners, poll_failed } = self.state();
        let Some(owners) = owners else {
            return poll_failed.then(|| key(0)).into_iter().collect();
        };
        if owners.has_gaps {
            self.poll_soon();
        }
        let key_of = |node: &Arc<Node>| {
            let is_its_key =
                |key: &String| owners.owner(slot(key)).is_some_and(|of| Arc::ptr_eq(of, node));
            (0..MAX_PROBE_KEYS).map(&key).find(is_its_key)
        };
        owners.nodes.iter().filter(|node| node.is_unavailable(mode)).filter_map(key_of).collect()
    }

    /// Sends commands, each with its key's slot. The replies are in the order of the commands.
    ///
    /// # Errors
    /// [`RedisFailure`] when no command has a reply; never later than `deadline`, except that large
    /// values may first wait for others.
    pub(super) async fn send(
        self: &Arc<Self>,
        kind: PoolKind,
        mode: AccessMode,
        commands: Vec<(u16, Cmd)>,
        deadline: Instant,
    ) -> Result<Replies, RedisFailure> {
        let owners = self.owners(deadline).await?;
        let mut replies = Vec::with_capacity(commands.len());
        replies.resize_with(commands.len(), || Err(unexpected("no node has the key's slot")));
        let mut has_reply = false;
        let mut failure = None;
        let mut pending = Self::pending(&owners, commands);
        if pending.len() < replies.len() {
            self.poll_soon();
        }
        for redirects in 0..=MAX_REDIRECTS {
            let sent = by_node(std::mem::take(&mut pending));
            let sent = sent.into_iter().map(|group| self.send_group(kind, mode, group, deadline));
            for (group, result) in join_all(sent).await {
                match result {
                    Ok(results) => {
                        has_reply = true;
                        for (command, reply) in group.into_iter().zip(results) {
                            match self.redirect(&reply) {
                                Some((node, asking)) if redirects < MAX_REDIRECTS => {
                                    pending.push(PendingCommand { node, asking, ..command });
                                }
                                _ => replies[command.index] = reply,
                            }
                        }
                    }
                    Err(error) => {
                        for command in group {
                            replies[command.index] = Err(error.command_error());
                        }
                        failure = Some(error);
                    }
                }
            }
            if pending.is_empty() {
                break;
            }
        }
        match failure {
            Some(failure) if !has_reply => Err(failure),
            _ => Ok(replies),
        }
    }

    /// The commands whose slot has a node, with that node.
    fn pending(owners: &SlotOwners, commands: Vec<(u16, Cmd)>) -> Vec<PendingCommand> {
        let with_node = |(index, (slot, command))| {
            let node = Arc::clone(owners.owner(slot)?);
            Some(PendingCommand { index, command, node, asking: false })
        };
        commands.into_iter().enumerate().filter_map(with_node).collect()
    }

    async fn send_group(
        self: &Arc<Self>,
        kind: PoolKind,
        mode: AccessMode,
        group: Vec<PendingCommand>,
        deadline: Instant,
    ) -> (Vec<PendingCommand>, Result<Replies, RedisFailure>) {
        let Some(node) = group.first().map(|command| Arc::clone(&command.node)) else {
            return (group, Ok(Vec::new()));
        };
        let mut commands = Vec::with_capacity(group.len());
        for command in &group {
            commands.extend(command.asking.then(|| cmd("ASKING")));
            commands.push(command.command.clone());
        }
        let sent = node.send(kind, mode, commands, deadline).await;
        let is_busy =
            |error: &_| matches!(error, RedisFailure::PoolExhausted | RedisFailure::LaneFull);
        if sent.as_ref().is_err_and(|error| !is_busy(error)) {
            self.poll_soon();
        }
        let replies = sent.map(|replies| without_asking(&group, replies));
        (group, replies)
    }

    /// The node that the reply redirects to, and whether the command needs `ASKING` there. A
    /// redirected command has not been run.
    fn redirect(self: &Arc<Self>, reply: &RedisResult<Value>) -> Option<(Arc<Node>, bool)> {
        let error = reply.as_ref().err()?;
        let asking = match error.kind() {
            ErrorKind::Server(ServerErrorKind::Ask) => true,
            ErrorKind::Server(ServerErrorKind::Moved) => false,
            ErrorKind::Server(ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown) => {
                self.poll_soon();
                return None;
            }
            _ => return None,
        };
        if !asking {
            self.poll_soon();
        }
        let (address, _) = error.redirect_node()?;
        let (host, port) = host_and_port(address).filter(|(host, _)| !host.is_empty())?;
        Some((self.node((host.to_owned(), port)), asking))
    }
}

fn by_node(pending: Vec<PendingCommand>) -> Vec<Vec<PendingCommand>> {
    let mut groups: HashMap<_, Vec<_>> = HashMap::new();
    for command in pending {
        groups.entry(Arc::as_ptr(&command.node)).or_default().push(command);
    }
    groups.into_values().collect()
}

/// Leaves out the replies to `ASKING`.
fn without_asking(group: &[PendingCommand], replies: Replies) -> Replies {
    let asking =
        group.iter().flat_map(|one| iter::repeat_n(true, usize::from(one.asking)).chain([false]));
    replies.into_iter().zip(asking).filter(|(_, asking)| !asking).map(|(reply, _)| reply).collect()
}
