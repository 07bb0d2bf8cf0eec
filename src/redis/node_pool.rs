//! A connection pool of a server. The results of its calls drive the server's circuit breakers. Every
//! wait is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bb8::{Pool, PooledConnection, RunError};
use redis::{Cmd, Pipeline};
use tokio::time::{Instant as Deadline, timeout_at};

use super::availability::{AccessMode, Availability, ConnectErrorSink};
use super::failure::{RedisFailure, Replies, outcome, reason};
use super::manager::{ConnectErrorLog, Endpoint, RedisManager};
use crate::ops::PoolState;
use crate::sync::Permit;
use crate::sync::supervised::contain;

/// The name of the task that probes servers, here and in [`super::probes`].
const PROBES: &str = "redis_probes";

/// Which pool of a server a command takes its connection from. Arrays by kind have this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolKind {
    /// For commands that count requests.
    Counters,
    /// For other small commands.
    Small,
    /// For large values.
    Large,
}

/// The settings of every node of a topology.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeSettings {
    /// The maximal size of the pool of each [`PoolKind`].
    pub(super) sizes: [u32; 3],
    /// The maximal time for a command, including the wait for a connection.
    pub(super) timeout: Duration,
    /// How often breakers have opened, by [`AccessMode`].
    pub(super) open_count: [Arc<AtomicU64>; 2],
    /// Of the pools of each [`PoolKind`].
    pub(super) round_trips: [Arc<RoundTrips>; 3],
    pub(super) connect_errors: Arc<ConnectErrorLog>,
}

/// A connection pool of a server.
#[derive(Debug)]
pub(super) struct NodePool {
    kind: PoolKind,
    pool: Pool<RedisManager>,
    availability: Arc<Availability>,
    size: u32,
    timeout: Duration,
    waiting: AtomicUsize,
    round_trips: Arc<RoundTrips>,
}

/// Exchanges with servers since the start.
#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    pub(super) ok: AtomicU64,
    /// Without a reply in time, or without a connection.
    pub(super) failed: AtomicU64,
}

impl NodePool {
    pub(super) fn new(
        endpoint: &Endpoint,
        kind: PoolKind,
        settings: &NodeSettings,
        availability: &Arc<Availability>,
    ) -> Self {
        let NodeSettings { sizes, timeout, connect_errors, .. } = settings;
        let size = sizes[kind as usize];
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
        let round_trips = Arc::clone(&settings.round_trips[kind as usize]);
        Self { kind, pool, availability, size, timeout: *timeout, waiting, round_trips }
    }

    pub(super) fn state(&self) -> PoolState {
        let state = self.pool.state();
        PoolState {
            max: self.size as usize,
            size: state.connections as usize,
            idle: state.idle_connections as usize,
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    /// The deadline of commands that are sent now.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline::now() + self.timeout
    }

    /// Sends commands if the circuit breaker allows it.
    ///
    /// # Errors
    /// [`RedisFailure`]; never later than `deadline`.
    pub(super) async fn send(
        self: &Arc<Self>,
        mode: AccessMode,
        commands: Pipeline,
        deadline: Deadline,
    ) -> Result<Replies, RedisFailure> {
        if self.rejects(mode) {
            return Err(RedisFailure::CircuitOpen);
        }
        match self.availability.breaker(mode).permit(Instant::now()) {
            Permit::Call => {
                let result = self.call(mode, &commands, deadline).await;
                if mode == AccessMode::Write && result.is_ok() {
                    self.probe_reads();
                }
                result
            }
            Permit::Reject => Err(RedisFailure::CircuitOpen),
            Permit::Probe => {
                self.probe(mode, commands);
                Err(RedisFailure::CircuitOpen)
            }
        }
    }

    /// Whether commands of this mode are neither sent nor used as a probe now. Where the outcome of a
    /// write says nothing about the server, that of reads decides, too: it may be out of reach.
    pub(super) fn rejects(&self, mode: AccessMode) -> bool {
        let breaker = self.availability.breaker(mode);
        if self.judges(mode) {
            return breaker.rejects(Instant::now());
        }
        breaker.is_open() || self.availability.breaker(AccessMode::Read).is_open()
    }

    fn probe(self: &Arc<Self>, mode: AccessMode, commands: Pipeline) {
        let (pool, deadline) = (Arc::clone(self), self.deadline());
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
        if let Ok(replies) = &result {
            self.availability.refusals.record(commands, replies);
        }
        // Without the right to count requests, writes are useless.
        let needs_rights = mode == AccessMode::Write;
        if self.judges(mode)
            && let Some(outcome) = outcome(&result, needs_rights)
        {
            let breaker = self.availability.breaker(mode);
            breaker.record(outcome, begun, Instant::now(), || reason(&result, needs_rights));
        }
        result
    }

    /// Whether a reply here shows whether the server is available for commands of this mode. For writes,
    /// only what counts requests does: the user may lack a right that just this needs, and other
    /// connections may still lead to a server that is no primary any more.
    fn judges(&self, mode: AccessMode) -> bool {
        mode == AccessMode::Read || self.kind == PoolKind::Counters
    }

    /// Sends commands, whatever the circuit breaker says.
    ///
    /// # Errors
    /// [`RedisFailure`]; never later than `deadline`.
    pub(super) async fn exchange(
        &self,
        commands: &Pipeline,
        deadline: Deadline,
    ) -> Result<Replies, RedisFailure> {
        let result = self.exchange_uncounted(commands, deadline).await;
        let RoundTrips { ok, failed } = &*self.round_trips;
        if result.is_ok() { ok } else { failed }.fetch_add(1, Ordering::Relaxed);
        result
    }

    async fn exchange_uncounted(
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

/// Commands that are sent in one round trip.
pub(super) fn pipeline(commands: impl IntoIterator<Item = Cmd>) -> Pipeline {
    let mut pipeline = Pipeline::new();
    for command in commands {
        pipeline.add_command(command);
    }
    pipeline
}
