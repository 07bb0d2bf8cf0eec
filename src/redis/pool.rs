//! The one way to Redis: a command goes out, and within `redis.timeout_ms` there is an answer
//! or word that there is none. Callers degrade; nothing here fails a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bb8::{ErrorSink, Pool, PooledConnection, RunError};
use redis::{
    Cmd, ConnectionInfo, ErrorKind, IntoConnectionInfo, Pipeline, RedisError, RedisResult,
};
use redis::{ServerErrorKind, Value};
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::manager::Manager;
use crate::breaker::{Breaker, Outcome, Permit};
use crate::ops::PoolState;

/// Which breaker a command is under: a full or read-only server still answers reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Commands that change nothing.
    Read,
    /// Commands that write.
    Write,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum NoAnswer {
    /// Known to be away: nobody waited.
    #[error("redis is known to be away")]
    Away,
    /// It did not answer within `redis.timeout_ms`.
    #[error("redis did not answer in time")]
    Timeout,
    /// All our connections were taken for `redis.timeout_ms`: this says nothing about Redis.
    #[error("all connections to redis were taken")]
    Crowded,
    /// It, or the way to it, failed.
    #[error("redis failed")]
    Failed(#[from] RedisError),
}

impl NoAnswer {
    /// Whether `redis.timeout_ms` was spent on it: by us, or by the client in the same moment.
    pub fn is_late(&self) -> bool {
        match self {
            Self::Timeout | Self::Crowded => true,
            Self::Failed(error) => error.is_timeout(),
            Self::Away => false,
        }
    }
}

/// A pool of connections with a breaker for each side. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RedisPool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool<Manager>,
    info: ConnectionInfo,
    timeout: Duration,
    breakers: Arc<Breakers>,
    refused: Arc<Notify>,
    size: u32,
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Breakers {
    read: Breaker,
    write: Breaker,
}

/// Whether `info` is a Redis address.
///
/// # Errors
/// When it is none.
pub fn check(info: impl IntoConnectionInfo) -> RedisResult<()> {
    info.into_connection_info().map(|_| ())
}

impl RedisPool {
    /// A pool that connects when it is first needed. Does no I/O; must be called on a runtime.
    ///
    /// # Errors
    /// When `info` is no Redis address.
    pub fn new(info: impl IntoConnectionInfo, size: u32, timeout: Duration) -> RedisResult<Self> {
        let breakers = Arc::new(Breakers {
            read: Breaker::new("redis, for reads"),
            write: Breaker::new("redis, for writes"),
        });
        Self::with(info.into_connection_info()?, size, timeout, breakers)
    }

    /// A pool of its own to the same Redis, for those who must not wait behind others. What one
    /// learns about Redis, the other knows.
    ///
    /// # Errors
    /// None for an address that was good for this pool.
    pub fn reserved(&self, size: u32) -> RedisResult<Self> {
        let Inner { info, timeout, breakers, .. } = &*self.0;
        Self::with(info.clone(), size, *timeout, Arc::clone(breakers))
    }

    fn with(
        info: ConnectionInfo,
        size: u32,
        timeout: Duration,
        breakers: Arc<Breakers>,
    ) -> RedisResult<Self> {
        let refused = Arc::new(Notify::new());
        let sink = ConnectErrors { breakers: Arc::clone(&breakers), refused: Arc::clone(&refused) };
        let pool = Pool::builder()
            .max_size(size)
            .connection_timeout(timeout)
            .retry_connection(false)
            // Asks our manager, which answers without a round trip.
            .test_on_check_out(true)
            .error_sink(Box::new(sink))
            .build_unchecked(Manager::new(info.clone(), timeout)?);
        let waiting = AtomicUsize::new(0);
        Ok(Self(Arc::new(Inner { pool, info, timeout, breakers, refused, size, waiting })))
    }

    /// Whether commands of this side are turned away at the moment.
    pub fn is_away(&self, side: Side) -> bool {
        self.0.breakers.of(side).is_open()
    }

    /// How often commands of this side began to be turned away.
    pub fn openings(&self, side: Side) -> u64 {
        self.0.breakers.of(side).openings()
    }

    /// Its connections.
    pub fn state(&self) -> PoolState {
        let state = self.0.pool.state();
        PoolState {
            most: self.0.size as usize,
            size: state.connections as usize,
            idle: state.idle_connections as usize,
            waiting: self.0.waiting.load(Ordering::Relaxed),
        }
    }

    /// Sends one command.
    ///
    /// # Errors
    /// [`NoAnswer`]; never later than `redis.timeout_ms` after the call.
    pub async fn send(&self, side: Side, command: Cmd) -> Result<Value, NoAnswer> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(command);
        let reply = self.send_all(side, pipeline).await?.pop();
        Ok(reply.unwrap_or_else(|| Err(unexpected("no reply to a command")))?)
    }

    /// Sends commands in one round trip; each has a result of its own, in the same order.
    ///
    /// # Errors
    /// [`NoAnswer`]; never later than `redis.timeout_ms` after the call.
    pub async fn send_all(
        &self,
        side: Side,
        commands: Pipeline,
    ) -> Result<Vec<RedisResult<Value>>, NoAnswer> {
        match self.0.breakers.of(side).permit(Instant::now()) {
            Permit::Call => {
                let result = self.0.call(side, &commands).await;
                if side == Side::Write && result.is_ok() {
                    self.probe_reads();
                }
                result
            }
            Permit::TurnAway => Err(NoAnswer::Away),
            Permit::Probe => {
                self.probe(side, commands);
                Err(NoAnswer::Away)
            }
        }
    }

    fn probe(&self, side: Side, commands: Pipeline) {
        let inner = Arc::clone(&self.0);
        tokio::spawn(async move { inner.call(side, &commands).await });
    }

    /// A replica whose own cache has all that is asked for sends no reads, which could show that
    /// they are answered again; but it does send writes.
    fn probe_reads(&self) {
        let read = &self.0.breakers.read;
        if read.is_open() && read.permit(Instant::now()) == Permit::Probe {
            let mut ping = Pipeline::with_capacity(1);
            ping.cmd("PING");
            self.probe(Side::Read, ping);
        }
    }
}

impl Inner {
    async fn call(
        &self,
        side: Side,
        commands: &Pipeline,
    ) -> Result<Vec<RedisResult<Value>>, NoAnswer> {
        let begun = Instant::now();
        let deadline = tokio::time::Instant::from_std(begun + self.timeout);
        let result = match timeout_at(deadline, self.connection()).await {
            Ok(Ok(mut connection)) => match timeout_at(deadline, connection.send(commands)).await {
                Ok(replies) => replies.map_err(NoAnswer::Failed),
                Err(_elapsed) => Err(NoAnswer::Timeout),
            },
            Ok(Err(error)) => Err(error),
            Err(_elapsed) => Err(self.none_free()),
        };
        if let Some(outcome) = outcome(&result) {
            self.breakers.of(side).record(outcome, begun, Instant::now());
        }
        result
    }

    async fn connection(&self) -> Result<PooledConnection<'_, Manager>, NoAnswer> {
        let _waiting = Waiting::begin(&self.waiting);
        // The pool itself would keep us waiting until its timeout when the address refuses.
        tokio::select! {
            connection = self.pool.get() => connection.map_err(|error| match error {
                RunError::User(error) => NoAnswer::Failed(error),
                RunError::TimedOut => self.none_free(),
            }),
            () = self.refused.notified() => Err(NoAnswer::Away),
        }
    }

    /// Why there was no connection in time: ours are taken, or none could be made. (Those who
    /// have one say themselves when Redis does not answer.)
    fn none_free(&self) -> NoAnswer {
        if self.pool.state().connections > 0 { NoAnswer::Crowded } else { NoAnswer::Timeout }
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
    fn of(&self, side: Side) -> &Breaker {
        match side {
            Side::Read => &self.read,
            Side::Write => &self.write,
        }
    }
}

/// What a call says about the store, if anything.
fn outcome(result: &Result<Vec<RedisResult<Value>>, NoAnswer>) -> Option<Outcome> {
    match result {
        Ok(replies) if replies.iter().any(refuses_service) => Some(Outcome::Refused),
        Ok(_) => Some(Outcome::Answered),
        Err(NoAnswer::Crowded) => None,
        // A refused connection has already been recorded where it was seen.
        Err(NoAnswer::Away | NoAnswer::Timeout | NoAnswer::Failed(_)) => Some(Outcome::Lost),
    }
}

/// Errors that say "not here, not now" rather than "not like this".
fn refuses_service(reply: &RedisResult<Value>) -> bool {
    let Err(error) = reply else { return false };
    match error.kind() {
        ErrorKind::Server(
            ServerErrorKind::ReadOnly
            | ServerErrorKind::BusyLoading
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::NoPerm,
        ) => true,
        _ => match error.code() {
            Some("OOM" | "MISCONF" | "NOAUTH" | "NOREPLICAS") => true,
            // Before version 7, an error inside a script is wrapped into the script's own.
            Some("ERR") => error.detail().is_some_and(|detail| {
                ["-OOM ", "-READONLY ", "-MISCONF "].iter().any(|code| detail.contains(code))
            }),
            _ => false,
        },
    }
}

fn unexpected(what: &'static str) -> RedisError {
    (ErrorKind::UnexpectedReturnType, what).into()
}

/// Hears of connections that could not be made.
#[derive(Debug, Clone)]
struct ConnectErrors {
    breakers: Arc<Breakers>,
    refused: Arc<Notify>,
}

impl ErrorSink<RedisError> for ConnectErrors {
    fn sink(&self, error: RedisError) {
        if error.is_connection_refusal() || error.kind() == ErrorKind::AuthenticationFailed {
            let now = Instant::now();
            self.breakers.read.record(Outcome::Refused, now, now);
            self.breakers.write.record(Outcome::Refused, now, now);
            self.refused.notify_waiters();
        }
        tracing::debug!(%error, "redis connection");
    }

    fn boxed_clone(&self) -> Box<dyn ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}
