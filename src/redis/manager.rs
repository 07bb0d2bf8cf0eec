//! Makes the connections of a pool and decides which of them can be reused.
//!
//! A multiplexed connection does not reconnect by itself. A connection that was abandoned in the
//! middle of a command, or that failed, never returns to the pool. When a connection turns out to
//! be broken, or to lead to a server that is not a primary any more, all connections of the same
//! generation are discarded. Checking out a connection costs no round trip.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bb8::ManageConnection;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

use super::dial::dial;
use super::servers::{Sentinels, Server};
use crate::sync::lock;

/// The server that connections are made to.
#[derive(Debug, Clone)]
pub(super) enum Endpoint {
    /// This server, whatever its host name currently resolves to.
    Server(Server),
    /// The primary that these sentinels name.
    Primary(Sentinels),
}

/// Makes and checks the connections of one pool.
#[derive(Debug)]
pub(super) struct RedisManager {
    endpoint: Endpoint,
    timeout: Duration,
    generation: Arc<AtomicU64>,
    /// The primary that was connected to last.
    primary: Mutex<Option<String>>,
    connect_errors: Arc<ConnectErrorLog>,
}

/// A connection, and whether it can be reused.
#[derive(Debug)]
pub(super) struct RedisConnection {
    inner: MultiplexedConnection,
    usable: bool,
    generation: u64,
    /// The manager's current generation. Older connections are discarded.
    current_generation: Arc<AtomicU64>,
}

impl RedisManager {
    pub(super) fn new(
        endpoint: Endpoint,
        timeout: Duration,
        connect_errors: Arc<ConnectErrorLog>,
    ) -> Self {
        let (generation, primary) = (Arc::default(), Mutex::default());
        Self { endpoint, timeout, generation, primary, connect_errors }
    }

    async fn dial(&self) -> RedisResult<MultiplexedConnection> {
        match &self.endpoint {
            Endpoint::Server(server) => dial(server, self.timeout).await,
            Endpoint::Primary(sentinels) => {
                let (connection, address) = sentinels.primary(self.timeout).await?;
                self.follow_primary(address.to_string());
                Ok(connection)
            }
        }
    }

    /// Remembers the primary. Discards the connections to the previous one if it has changed.
    fn follow_primary(&self, address: String) {
        let mut primary = lock(&self.primary);
        if primary.as_ref() != Some(&address) {
            if primary.is_some() {
                self.generation.fetch_add(1, Ordering::AcqRel);
            }
            tracing::info!(%address, "redis primary");
            *primary = Some(address);
        }
    }
}

impl ManageConnection for RedisManager {
    type Connection = RedisConnection;
    type Error = RedisError;

    async fn connect(&self) -> RedisResult<RedisConnection> {
        // If a connection breaks while this one is made, this one is discarded too. That the
        // primary has changed discards only older connections.
        let before = self.generation.load(Ordering::Acquire);
        let inner = self.dial().await.inspect_err(|error| self.connect_errors.record(error))?;
        self.connect_errors.clear();
        let generation = match self.endpoint {
            Endpoint::Server(_) => before,
            Endpoint::Primary(_) => self.generation.load(Ordering::Acquire),
        };
        Ok(RedisConnection {
            inner,
            usable: true,
            generation,
            current_generation: Arc::clone(&self.generation),
        })
    }

    async fn is_valid(&self, connection: &mut RedisConnection) -> RedisResult<()> {
        if connection.generation == self.generation.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err((ErrorKind::Io, "discarded, because another connection broke").into())
        }
    }

    fn has_broken(&self, connection: &mut RedisConnection) -> bool {
        !connection.usable
    }
}

impl RedisConnection {
    /// Sends `commands` in one round trip. The outer error is the connection's, an inner error is
    /// that of a single command.
    pub(super) async fn send(
        &mut self,
        commands: &Pipeline,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        // Stays so if the caller stops waiting: a reply is still to come.
        self.usable = false;
        let replies = match self.inner.req_packed_commands(commands, 0, commands.len()).await {
            Ok(replies) => replies,
            Err(error) => {
                self.current_generation.fetch_max(self.generation + 1, Ordering::AcqRel);
                return Err(error);
            }
        };
        let replies: Vec<_> = replies.into_iter().map(Value::extract_error).collect();
        self.usable = !replies.iter().any(must_reconnect);
        Ok(replies)
    }
}

/// A demoted primary keeps its connections open. A new connection finds the new primary, since the
/// host name resolves to it or the sentinels name it.
fn must_reconnect(reply: &RedisResult<Value>) -> bool {
    reply.as_ref().is_err_and(|error| is_read_only(error) || error.is_unrecoverable_error())
}

/// Before version 7, an error inside a script is part of the detail of the script's error.
fn is_read_only(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || error.detail().is_some_and(|detail| detail.contains("-READONLY "))
}

/// Whether the server refused a connection, so that it will probably refuse the next one too.
pub(super) fn is_refusal(error: &RedisError) -> bool {
    let is_denied = matches!(
        error.kind(),
        ErrorKind::AuthenticationFailed
            | ErrorKind::InvalidClientConfig
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::Server(ServerErrorKind::NoPerm)
    );
    is_denied || error.is_connection_refusal()
}

/// Logs why connections can't be made if retries do not help, once until the reason changes or a
/// connection is made. The breakers log that a server is unavailable.
#[derive(Debug, Default)]
pub(super) struct ConnectErrorLog(Mutex<Option<String>>);

impl ConnectErrorLog {
    pub(super) fn record(&self, error: &RedisError) {
        let is_permanent = is_refusal(error) && !error.is_connection_refusal();
        tracing::debug!(%error, "redis connection");
        // Without digits, since some errors contain a number of seconds.
        let reason = error.to_string().replace(|c: char| c.is_ascii_digit(), "");
        let mut last = lock(&self.0);
        if is_permanent && last.as_ref() != Some(&reason) {
            tracing::warn!(%error, "cannot connect to redis");
            *last = Some(reason);
        }
    }

    fn clear(&self) {
        *lock(&self.0) = None;
    }
}
