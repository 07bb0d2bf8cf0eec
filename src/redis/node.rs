//! One place that commands are sent to: pools of connections, a breaker for each mode, and a bound
//! on every wait.

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
use crate::sync::{Breaker, CallOutcome, Permit};

/// Which breaker a command is under: a full or read-only server still answers reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// Commands that change nothing.
    Read,
    /// Commands that write.
    Write,
}

/// Whose connections a command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolKind {
    /// Everybody's.
    Common,
    /// Those of who must not wait behind others.
    Reserved,
}

/// What every node of a topology is made with.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeSettings {
    /// The most connections of each kind.
    pub(super) sizes: [u32; 2],
    /// For any answer.
    pub(super) timeout: Duration,
    /// How often breakers have opened, for reads and for writes.
    pub(super) open_count: [Arc<AtomicU64>; 2],
    pub(super) connect_errors: Arc<ConnectErrorLog>,
}

/// See the module. Its pools know together whether it is away.
#[derive(Debug)]
pub(super) struct Node {
    pools: [Arc<NodePool>; 2],
    breakers: Arc<Breakers>,
}

#[derive(Debug)]
struct NodePool {
    pool: Pool<RedisManager>,
    breakers: Arc<Breakers>,
    refused: Arc<Notify>,
    size: u32,
    timeout: Duration,
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Breakers {
    read: Breaker,
    write: Breaker,
}

impl Node {
    /// A node that is connected to when it is first needed. Does no I/O; must be called on a
    /// runtime. `name` stands in the log.
    pub(super) fn new(name: &str, place: &Endpoint, settings: &NodeSettings) -> Self {
        let breaker = |mode: AccessMode, word: &str| {
            let open_count = Arc::clone(&settings.open_count[mode as usize]);
            Breaker::counted_in(open_count, format!("{name} ({word})"))
        };
        let (read, write) =
            (breaker(AccessMode::Read, "reads"), breaker(AccessMode::Write, "writes"));
        let breakers = Arc::new(Breakers { read, write });
        let kind = |size| Arc::new(NodePool::new(place, size, settings, &breakers));
        Self { pools: settings.sizes.map(kind), breakers }
    }

    /// Whether commands of this mode are turned away at the moment.
    pub(super) fn is_unavailable(&self, mode: AccessMode) -> bool {
        self.breakers.of(mode).is_open()
    }

    /// The connections of a kind.
    pub(super) fn state(&self, kind: PoolKind) -> PoolState {
        self.pools[kind as usize].state()
    }

    /// Sends commands in one round trip; each has a result of its own, in the same order.
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
        let connections = &self.pools[kind as usize];
        match self.breakers.of(mode).permit(Instant::now()) {
            Permit::Call => {
                let result = connections.call(mode, &commands, deadline).await;
                if mode == AccessMode::Write && result.is_ok() {
                    connections.probe_reads();
                }
                result
            }
            Permit::Reject => Err(RedisFailure::CircuitOpen),
            Permit::Probe => {
                connections.probe(mode, commands);
                Err(RedisFailure::CircuitOpen)
            }
        }
    }
}

impl NodePool {
    fn new(place: &Endpoint, size: u32, settings: &NodeSettings, breakers: &Arc<Breakers>) -> Self {
        let (refused, timeout) = (Arc::new(Notify::new()), settings.timeout);
        let sink =
            ConnectErrorSink { breakers: Arc::clone(breakers), refused: Arc::clone(&refused) };
        let pool = Pool::builder()
            .max_size(size)
            .connection_timeout(timeout)
            .retry_connection(false)
            // Asks our manager, which answers without a round trip.
            .test_on_check_out(true)
            .error_sink(Box::new(sink))
            .build_unchecked(RedisManager::new(
                place.clone(),
                timeout,
                settings.connect_errors.clone(),
            ));
        let (breakers, waiting) = (Arc::clone(breakers), AtomicUsize::new(0));
        Self { pool, breakers, refused, size, timeout, waiting }
    }

    fn state(&self) -> PoolState {
        let state = self.pool.state();
        PoolState {
            most: self.size as usize,
            size: state.connections as usize,
            idle: state.idle_connections as usize,
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    fn probe(self: &Arc<Self>, mode: AccessMode, commands: Pipeline) {
        let connections = Arc::clone(self);
        let deadline = Deadline::now() + self.timeout;
        tokio::spawn(async move { connections.call(mode, &commands, deadline).await });
    }

    /// A replica whose own cache has all that is asked for sends no reads, which could show that
    /// they are answered again; but it does send writes.
    fn probe_reads(self: &Arc<Self>) {
        let read = &self.breakers.read;
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
        let result = match timeout_at(deadline, self.connection()).await {
            Ok(Ok(mut connection)) => match timeout_at(deadline, connection.send(commands)).await {
                Ok(replies) => replies.map_err(RedisFailure::Failed),
                Err(_elapsed) => Err(RedisFailure::Timeout),
            },
            Ok(Err(error)) => Err(error),
            Err(_elapsed) => Err(self.none_free()),
        };
        if let Some(outcome) = outcome(&result) {
            let why = || reason(&result);
            self.breakers.of(mode).record_with_reason(outcome, begun, Instant::now(), why);
        }
        result
    }

    async fn connection(&self) -> Result<PooledConnection<'_, RedisManager>, RedisFailure> {
        let _waiting = WaitingGuard::begin(&self.waiting);
        // The pool itself would keep us waiting until its timeout when the address refuses.
        tokio::select! {
            connection = self.pool.get() => connection.map_err(|error| match error {
                RunError::User(error) => RedisFailure::Failed(error),
                RunError::TimedOut => self.none_free(),
            }),
            () = self.refused.notified() => Err(RedisFailure::CircuitOpen),
        }
    }

    /// Why there was no connection in time: ours are taken, or none could be made. (Those who
    /// have one say themselves when Redis does not answer.)
    fn none_free(&self) -> RedisFailure {
        if self.pool.state().connections > 0 {
            RedisFailure::PoolExhausted
        } else {
            RedisFailure::Timeout
        }
    }
}

/// One who waits for a connection, however that ends.
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

impl Breakers {
    fn of(&self, mode: AccessMode) -> &Breaker {
        match mode {
            AccessMode::Read => &self.read,
            AccessMode::Write => &self.write,
        }
    }
}

/// Hears of connections that could not be made.
#[derive(Debug, Clone)]
struct ConnectErrorSink {
    breakers: Arc<Breakers>,
    refused: Arc<Notify>,
}

impl ErrorSink<RedisError> for ConnectErrorSink {
    fn sink(&self, error: RedisError) {
        if is_refusal(&error) {
            let now = Instant::now();
            for breaker in [&self.breakers.read, &self.breakers.write] {
                let why = || Some(error.to_string());
                breaker.record_with_reason(CallOutcome::Refused, now, now, why);
            }
            self.refused.notify_waiters();
        }
    }

    fn boxed_clone(&self) -> Box<dyn ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}
