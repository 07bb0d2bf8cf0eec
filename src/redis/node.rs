//! One place that commands are sent to: pools of connections, a breaker for each side, and a bound
//! on every wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bb8::{ErrorSink, Pool, PooledConnection, RunError};
use redis::{Pipeline, RedisError};
use tokio::sync::Notify;
use tokio::time::{Instant as Deadline, timeout_at};

use super::answer::{RedisFailure, Replies, outcome, reason};
use super::manager::{ConnectErrorLog, Endpoint, Manager, is_refusal};
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
pub(super) enum Lane {
    /// Everybody's.
    Common,
    /// Those of who must not wait behind others.
    Reserved,
}

/// What every node of a topology is made with.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// The most connections of each lane.
    pub(super) sizes: [u32; 2],
    /// For any answer.
    pub(super) timeout: Duration,
    /// How often breakers have opened, for reads and for writes.
    pub(super) open_count: [Arc<AtomicU64>; 2],
    pub(super) connect_errors: Arc<ConnectErrorLog>,
}

/// See the module. Its lanes know together whether it is away.
#[derive(Debug)]
pub(super) struct Node {
    lanes: [Arc<Connections>; 2],
    breakers: Arc<Breakers>,
}

#[derive(Debug)]
struct Connections {
    pool: Pool<Manager>,
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
    pub(super) fn new(name: &str, place: &Endpoint, settings: &Settings) -> Self {
        let breaker = |side: AccessMode, word: &str| {
            let open_count = Arc::clone(&settings.open_count[side as usize]);
            Breaker::counted_in(open_count, format!("{name}, for {word}"))
        };
        let (read, write) =
            (breaker(AccessMode::Read, "reads"), breaker(AccessMode::Write, "writes"));
        let breakers = Arc::new(Breakers { read, write });
        let lane = |size| Arc::new(Connections::new(place, size, settings, &breakers));
        Self { lanes: settings.sizes.map(lane), breakers }
    }

    /// Whether commands of this side are turned away at the moment.
    pub(super) fn is_unavailable(&self, side: AccessMode) -> bool {
        self.breakers.of(side).is_open()
    }

    /// The connections of a lane.
    pub(super) fn state(&self, lane: Lane) -> PoolState {
        self.lanes[lane as usize].state()
    }

    /// Sends commands in one round trip; each has a result of its own, in the same order.
    ///
    /// # Errors
    /// [`RedisFailure`]; never later than `deadline`.
    pub(super) async fn send(
        &self,
        lane: Lane,
        side: AccessMode,
        commands: Pipeline,
        deadline: Deadline,
    ) -> Result<Replies, RedisFailure> {
        let connections = &self.lanes[lane as usize];
        match self.breakers.of(side).permit(Instant::now()) {
            Permit::Call => {
                let result = connections.call(side, &commands, deadline).await;
                if side == AccessMode::Write && result.is_ok() {
                    connections.probe_reads();
                }
                result
            }
            Permit::Reject => Err(RedisFailure::CircuitOpen),
            Permit::Probe => {
                connections.probe(side, commands);
                Err(RedisFailure::CircuitOpen)
            }
        }
    }
}

impl Connections {
    fn new(place: &Endpoint, size: u32, settings: &Settings, breakers: &Arc<Breakers>) -> Self {
        let (refused, timeout) = (Arc::new(Notify::new()), settings.timeout);
        let sink = ConnectErrors { breakers: Arc::clone(breakers), refused: Arc::clone(&refused) };
        let pool = Pool::builder()
            .max_size(size)
            .connection_timeout(timeout)
            .retry_connection(false)
            // Asks our manager, which answers without a round trip.
            .test_on_check_out(true)
            .error_sink(Box::new(sink))
            .build_unchecked(Manager::new(place.clone(), timeout, settings.connect_errors.clone()));
        let (breakers, waiting) = (Arc::clone(breakers), AtomicUsize::new(0));
        Self { pool, breakers, refused, size, timeout, waiting }
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

    fn probe(self: &Arc<Self>, side: AccessMode, commands: Pipeline) {
        let connections = Arc::clone(self);
        let deadline = Deadline::now() + self.timeout;
        tokio::spawn(async move { connections.call(side, &commands, deadline).await });
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
        side: AccessMode,
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
            self.breakers.of(side).record_because(outcome, begun, Instant::now(), why);
        }
        result
    }

    async fn connection(&self) -> Result<PooledConnection<'_, Manager>, RedisFailure> {
        let _waiting = Waiting::begin(&self.waiting);
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
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Breakers {
    fn of(&self, side: AccessMode) -> &Breaker {
        match side {
            AccessMode::Read => &self.read,
            AccessMode::Write => &self.write,
        }
    }
}

/// Hears of connections that could not be made.
#[derive(Debug, Clone)]
struct ConnectErrors {
    breakers: Arc<Breakers>,
    refused: Arc<Notify>,
}

impl ErrorSink<RedisError> for ConnectErrors {
    fn sink(&self, error: RedisError) {
        if is_refusal(&error) {
            let now = Instant::now();
            for breaker in [&self.breakers.read, &self.breakers.write] {
                let why = || Some(error.to_string());
                breaker.record_because(CallOutcome::Refused, now, now, why);
            }
            self.refused.notify_waiters();
        }
    }

    fn boxed_clone(&self) -> Box<dyn ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}
