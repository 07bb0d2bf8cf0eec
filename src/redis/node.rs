//! A server that commands are sent to: its connection pools, and circuit breakers for reads and for
//! writes. Every wait is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bb8::{ErrorSink, Pool, PooledConnection, RunError};
use redis::{Pipeline, RedisError};
use tokio::sync::Notify;
use tokio::time::{Instant as Deadline, timeout_at};

use super::failure::{RedisFailure, Replies, outcome, reason};
use super::manager::{ConnectErrorLog, Endpoint, RedisManager, is_refusal};
use crate::ops::PoolState;
use crate::sync::supervised::contain;
use crate::sync::{Breaker, CallOutcome, Permit};

/// The name of the task that probes servers, here and in [`super::probes`].
const PROBES: &str = "redis_probes";

/// Whether a command reads or writes. Each mode has a breaker of its own, since a full or read-only
/// server still replies to reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// Commands that change nothing.
    Read,
    /// Commands that write.
    Write,
}

/// Which pool a command takes its connection from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolKind {
    /// The pool for most commands.
    Common,
    /// The pool for commands that must not wait for others.
    Reserved,
}

/// The settings of every node of a topology.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeSettings {
    /// The maximal size of the pool of each [`PoolKind`].
    pub(super) sizes: [u32; 2],
    /// The maximal time for a command, including the wait for a connection.
    pub(super) timeout: Duration,
    /// How often breakers have opened, by [`AccessMode`].
    pub(super) open_count: [Arc<AtomicU64>; 2],
    pub(super) connect_errors: Arc<ConnectErrorLog>,
}

/// A server with its pools, by [`PoolKind`].
#[derive(Debug)]
pub(super) struct Node {
    /// As the log calls it. No two nodes of a topology have the same name.
    pub(super) name: Arc<str>,
    pools: [Arc<NodePool>; 2],
    availability: Arc<Availability>,
}

#[derive(Debug)]
struct NodePool {
    pool: Pool<RedisManager>,
    availability: Arc<Availability>,
    size: u32,
    timeout: Duration,
    waiting: AtomicUsize,
}

/// Whether a server is available, for both of its pools.
#[derive(Debug)]
struct Availability {
    /// By [`AccessMode`].
    breakers: [Breaker; 2],
    /// Notified when a connection has been refused.
    refused: Notify,
}

impl Node {
    /// A node whose connections are made when they are first needed. Does no I/O; must be called on
    /// a runtime. The log calls the node `name`.
    pub(super) fn new(name: &str, endpoint: &Endpoint, settings: &NodeSettings) -> Self {
        let breaker = |(open_count, word): (&Arc<AtomicU64>, _)| {
            Breaker::counted_in(Arc::clone(open_count), format!("{name} ({word})"))
        };
        let [reads, writes] = &settings.open_count;
        let breakers = [(reads, "reads"), (writes, "writes")].map(breaker);
        let availability = Arc::new(Availability { breakers, refused: Notify::new() });
        let pool = |size| Arc::new(NodePool::new(endpoint, size, settings, &availability));
        Self { name: name.into(), pools: settings.sizes.map(pool), availability }
    }

    /// Whether commands of this mode are rejected at the moment.
    pub(super) fn is_unavailable(&self, mode: AccessMode) -> bool {
        self.availability.breaker(mode).is_open()
    }

    /// The connections of the pool of this kind.
    pub(super) fn state(&self, kind: PoolKind) -> PoolState {
        self.pools[kind as usize].state()
    }

    /// Sends commands in one round trip. The replies are in the order of the commands.
    ///
    /// # Errors
    /// [`RedisFailure`]; never later than `deadline`.
    pub(super) async fn send(
        &self,
        kind: PoolKind,
        mode: AccessMode,
        commands: Pipeline,
        deadline: Deadline,
    ) -> Result<Replies, RedisFailure> {
        let pool = &self.pools[kind as usize];
        match self.availability.breaker(mode).permit(Instant::now()) {
            Permit::Call => {
                let result = pool.call(mode, &commands, deadline).await;
                if mode == AccessMode::Write && result.is_ok() {
                    pool.probe_reads();
                }
                result
            }
            Permit::Reject => Err(RedisFailure::CircuitOpen),
            Permit::Probe => {
                pool.probe(mode, commands);
                Err(RedisFailure::CircuitOpen)
            }
        }
    }

    /// Sends commands about the server itself. Whatever it replies concerns no circuit breaker: a
    /// user may have all rights but these.
    ///
    /// # Errors
    /// [`RedisFailure`]; never later than `deadline`.
    pub(super) async fn ask(
        &self,
        kind: PoolKind,
        commands: &Pipeline,
        deadline: Deadline,
    ) -> Result<Replies, RedisFailure> {
        if self.is_unavailable(AccessMode::Read) {
            return Err(RedisFailure::CircuitOpen);
        }
        self.pools[kind as usize].exchange(commands, deadline).await
    }
}

impl NodePool {
    fn new(
        endpoint: &Endpoint,
        size: u32,
        settings: &NodeSettings,
        availability: &Arc<Availability>,
    ) -> Self {
        let NodeSettings { timeout, connect_errors, .. } = settings;
        let manager = RedisManager::new(endpoint.clone(), *timeout, Arc::clone(connect_errors));
        let pool = Pool::builder()
            .max_size(size)
            .connection_timeout(*timeout)
            .retry_connection(false)
            // Calls `RedisManager::is_valid`, which costs no round trip.
            .test_on_check_out(true)
            .error_sink(Box::new(ConnectErrorSink(Arc::clone(availability))))
            .build_unchecked(manager);
        let (availability, waiting) = (Arc::clone(availability), AtomicUsize::new(0));
        Self { pool, availability, size, timeout: *timeout, waiting }
    }

    fn state(&self) -> PoolState {
        let state = self.pool.state();
        PoolState {
            max: self.size as usize,
            size: state.connections as usize,
            idle: state.idle_connections as usize,
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    fn probe(self: &Arc<Self>, mode: AccessMode, commands: Pipeline) {
        let pool = Arc::clone(self);
        let deadline = Deadline::now() + self.timeout;
        tokio::spawn(contain(PROBES, async move { pool.call(mode, &commands, deadline).await }));
    }

    /// Probes reads after a successful write: a replica whose local cache has every entry sends
    /// writes, but no reads.
    fn probe_reads(self: &Arc<Self>) {
        let read = self.availability.breaker(AccessMode::Read);
        if read.is_open() && read.permit(Instant::now()) == Permit::Probe {
            let mut ping = Pipeline::with_capacity(1);
            ping.cmd("PING");
            self.probe(AccessMode::Read, ping);
        }
    }

    async fn call(
        &self,
        mode: AccessMode,
        commands: &Pipeline,
        deadline: Deadline,
    ) -> Result<Replies, RedisFailure> {
        let begun = Instant::now();
        let result = self.exchange(commands, deadline).await;
        if let Some(outcome) = outcome(&result) {
            let reason = || reason(&result);
            self.availability.breaker(mode).record(outcome, begun, Instant::now(), reason);
        }
        result
    }

    async fn exchange(
        &self,
        commands: &Pipeline,
        deadline: Deadline,
    ) -> Result<Replies, RedisFailure> {
        match timeout_at(deadline, self.connection()).await {
            Ok(Ok(mut connection)) => match timeout_at(deadline, connection.send(commands)).await {
                Ok(replies) => replies.map_err(RedisFailure::Failed),
                Err(_elapsed) => Err(RedisFailure::Timeout),
            },
            Ok(Err(error)) => Err(error),
            Err(_elapsed) => Err(self.no_connection()),
        }
    }

    async fn connection(&self) -> Result<PooledConnection<'_, RedisManager>, RedisFailure> {
        let _waiting = WaitingGuard::begin(&self.waiting);
        // The pool itself would wait until its timeout when the address refuses connections.
        tokio::select! {
            connection = self.pool.get() => connection.map_err(|error| match error {
                RunError::User(error) => RedisFailure::Failed(error),
                RunError::TimedOut => self.no_connection(),
            }),
            () = self.availability.refused.notified() => Err(RedisFailure::CircuitOpen),
        }
    }

    /// Why there was no connection in time: all are in use, or none could be made. If Redis does
    /// not reply, the callers that use the connections report it.
    fn no_connection(&self) -> RedisFailure {
        if self.pool.state().connections > 0 {
            RedisFailure::PoolExhausted
        } else {
            RedisFailure::Timeout
        }
    }
}

/// Counts a caller that waits for a connection, until it is dropped.
struct WaitingGuard<'a>(&'a AtomicUsize);

impl<'a> WaitingGuard<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Availability {
    fn breaker(&self, mode: AccessMode) -> &Breaker {
        &self.breakers[mode as usize]
    }
}

/// Records connections that could not be made.
#[derive(Debug, Clone)]
struct ConnectErrorSink(Arc<Availability>);

impl ErrorSink<RedisError> for ConnectErrorSink {
    fn sink(&self, error: RedisError) {
        if is_refusal(&error) {
            let now = Instant::now();
            for breaker in &self.0.breakers {
                breaker.record(CallOutcome::Refused, now, now, || Some(error.to_string()));
            }
            self.0.refused.notify_waiters();
        }
    }

    fn boxed_clone(&self) -> Box<dyn ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}
