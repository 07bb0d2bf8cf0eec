//! A lane to a server: commands that arrive while round trips are under way share the next one.
//!
//! Each lane of a server has connections of its own, so that large values delay no small ones, and
//! nothing delays the counting of requests (see [`crate::limit`], which batches by key).

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use redis::{Arg, Cmd};
use tokio::time::{Instant, timeout_at};

use super::availability::AccessMode;
use super::failure::{RedisFailure, Replies, unexpected};
use super::node_pool::{NodePool, pipeline};
use crate::sync::{
    BatchEntry, BatchError, BatchExecutor, BatchLimits, Batcher, WaitingRequests, WhenFull,
};

/// Batches of each mode that are under way at once.
const WORKERS: usize = 2;

/// At most 16 callers a batch, so that one keeps Redis busy for less than a millisecond.
const SMALL: BatchLimits = BatchLimits {
    max_batch: 16,
    max_workers: WORKERS,
    max_waiting: 65_536,
    when_full: WhenFull::RejectNew,
};

/// Weights are bytes to send.
const LARGE: BatchLimits = BatchLimits {
    max_batch: 64 << 10,
    max_workers: WORKERS,
    max_waiting: 8 << 20,
    when_full: WhenFull::DropOldest,
};

/// Minimum weight of a command; it limits a batch to 512 commands.
const MIN_BYTES: usize = 128;

/// Sends the commands of all callers in batches.
#[derive(Debug)]
pub(super) struct Lane {
    pool: Arc<NodePool>,
    /// By [`AccessMode`]: a server whose writes hang may still reply to reads.
    batchers: [Batcher<Commands, CommandsResult, CommandBatches>; 2],
}

type CommandsResult = Result<Replies, RedisFailure>;

/// What one caller sends. No two are equal.
#[derive(Debug, Clone)]
struct Commands(Arc<Vec<Cmd>>);

#[derive(Debug)]
struct CommandBatches {
    pool: Arc<NodePool>,
    mode: AccessMode,
    weight: fn(&[Cmd]) -> usize,
}

impl Lane {
    /// The lane for small commands that callers wait for.
    pub(super) fn small(pool: NodePool) -> Self {
        Self::new(pool, SMALL, |_| 1)
    }

    /// The lane for large values. While it is full, the values that have waited longest are given up.
    pub(super) fn large(pool: NodePool) -> Self {
        Self::new(pool, LARGE, |commands| {
            commands.iter().map(|command| length(command).max(MIN_BYTES)).sum()
        })
    }

    fn new(pool: NodePool, limits: BatchLimits, weight: fn(&[Cmd]) -> usize) -> Self {
        let pool = Arc::new(pool);
        let batcher = |mode| {
            let batches = CommandBatches { pool: Arc::clone(&pool), mode, weight };
            Batcher::new("redis_batches", batches, limits)
        };
        let batchers = [AccessMode::Read, AccessMode::Write].map(batcher);
        Self { pool, batchers }
    }

    /// Its connections.
    pub(super) fn pool(&self) -> &Arc<NodePool> {
        &self.pool
    }

    /// Sends commands in one round trip, with those of others that wait at the same time. The replies
    /// are in the order of the commands. Without a `deadline`, only the round trip is bounded.
    ///
    /// # Errors
    /// [`RedisFailure`]; never later than `deadline`.
    pub(super) async fn send(
        &self,
        mode: AccessMode,
        commands: Vec<Cmd>,
        deadline: Option<Instant>,
    ) -> CommandsResult {
        // Batches that hang may hold up the queue.
        if self.pool.rejects(mode) {
            return Err(RedisFailure::CircuitOpen);
        }
        let reply = self.batchers[mode as usize].run(Commands(Arc::new(commands)));
        let reply = match deadline {
            Some(deadline) => {
                timeout_at(deadline, reply).await.map_err(|_| RedisFailure::Timeout)?
            }
            None => reply.await,
        };
        reply.unwrap_or_else(|error| match error {
            BatchError::QueueFull => Err(RedisFailure::LaneFull),
            BatchError::TaskPanicked(_) => Err(unexpected("the batch panicked").into()),
        })
    }
}

impl BatchExecutor<Commands, CommandsResult> for CommandBatches {
    async fn execute(
        &self,
        batch: Vec<BatchEntry<Commands, CommandsResult>>,
        _: WaitingRequests<'_, Commands, CommandsResult>,
    ) {
        let commands = batch.iter().flat_map(|entry| &*entry.request.0).cloned();
        match self.pool.send(self.mode, pipeline(commands), self.pool.deadline()).await {
            Ok(replies) => {
                let mut replies = replies.into_iter();
                for entry in batch {
                    let own = replies.by_ref().take(entry.request.0.len()).collect();
                    entry.reply(Ok(own));
                }
            }
            Err(failure) => {
                batch.into_iter().for_each(|entry| entry.reply(Err(failure.clone())));
            }
        }
    }

    fn weight(&self, commands: &Commands) -> usize {
        (self.weight)(&commands.0)
    }
}

/// About how many bytes the command sends.
fn length(command: &Cmd) -> usize {
    let length =
        |argument: Arg<&[u8]>| if let Arg::Simple(bytes) = argument { bytes.len() } else { 0 };
    command.args_iter().map(length).sum()
}

impl PartialEq for Commands {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Commands {}

impl Hash for Commands {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
