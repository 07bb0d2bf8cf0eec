//! NodePool for the pool, and the truth about whether they still work.
//!
//! A multiplexed connection does not reconnect by itself. Here a connection that was left in the
//! middle of a command, or that failed, never goes back into the pool; and when one connection is
//! found dead, or leads to a server that is no primary any more, all that are as old as it are
//! tried no more. Checking one out costs no round trip.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bb8::ManageConnection;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

use super::dial::dial;
use super::servers::{Sentinels, Server};

/// Where connections lead.
#[derive(Debug, Clone)]
pub(super) enum Endpoint {
    /// To one server, whichever its name leads to.
    Server(Server),
    /// To the primary that sentinels name.
    Primary(Sentinels),
}

/// Makes connections and judges them.
#[derive(Debug)]
pub(super) struct RedisManager {
    place: Endpoint,
    timeout: Duration,
    generation: Arc<AtomicU64>,
    /// The primary that was connected to last.
    primary: Mutex<Option<String>>,
    connect_errors: Arc<ConnectErrorLog>,
}

/// A connection that knows whether it can be used again.
#[derive(Debug)]
pub(super) struct RedisConnection {
    inner: MultiplexedConnection,
    usable: bool,
    generation: u64,
    newest: Arc<AtomicU64>,
}

impl RedisManager {
    pub(super) fn new(
        place: Endpoint,
        timeout: Duration,
        connect_errors: Arc<ConnectErrorLog>,
    ) -> Self {
        Self {
            place,
            timeout,
            generation: Arc::default(),
            primary: Mutex::default(),
            connect_errors,
        }
    }

    async fn dial(&self) -> RedisResult<MultiplexedConnection> {
        match &self.place {
            Endpoint::Server(server) => dial(server, self.timeout).await,
            Endpoint::Primary(sentinels) => {
                let found = sentinels.primary(self.timeout).await?;
                self.follow(found.address);
                Ok(found.connection)
            }
        }
    }

    /// NodePool to the primary before this one are tried no more.
    fn follow(&self, address: String) {
        let mut primary = self.primary.lock().unwrap_or_else(PoisonError::into_inner);
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
        // What is found dead meanwhile concerns this one too, but not that it is the first to
        // another primary.
        let before = self.generation.load(Ordering::Acquire);
        let inner = self.dial().await.inspect_err(|error| self.connect_errors.make(error))?;
        self.connect_errors.end();
        let generation = match self.place {
            Endpoint::Server(_) => before,
            Endpoint::Primary(_) => self.generation.load(Ordering::Acquire),
        };
        Ok(RedisConnection {
            inner,
            usable: true,
            generation,
            newest: Arc::clone(&self.generation),
        })
    }

    async fn is_valid(&self, connection: &mut RedisConnection) -> RedisResult<()> {
        if connection.generation == self.generation.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err((ErrorKind::Io, "as old as a connection that was found dead").into())
        }
    }

    fn has_broken(&self, connection: &mut RedisConnection) -> bool {
        !connection.usable
    }
}

impl RedisConnection {
    /// Sends `commands` in one round trip. The outer error is the connection's; the inner ones
    /// are those of single commands, read one by one.
    pub(super) async fn send(
        &mut self,
        commands: &Pipeline,
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        // Whoever stops waiting leaves a connection with an answer still to come.
        self.usable = false;
        let replies = match self.inner.req_packed_commands(commands, 0, commands.len()).await {
            Ok(replies) => replies,
            Err(error) => {
                self.newest.fetch_max(self.generation + 1, Ordering::AcqRel);
                return Err(error);
            }
        };
        let replies: Vec<_> = replies.into_iter().map(Value::extract_error).collect();
        self.usable = !replies.iter().any(must_reconnect);
        Ok(replies)
    }
}

/// A demoted node goes on serving its connections; the name behind the URL may lead to the new
/// primary by now, and the sentinels may name it.
fn must_reconnect(reply: &RedisResult<Value>) -> bool {
    let Err(error) = reply else { return false };
    is_read_only(error) || error.is_unrecoverable_error()
}

/// Before version 7, an error inside a script is wrapped into the script's own.
fn is_read_only(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || error.detail().is_some_and(|detail| detail.contains("-READONLY "))
}

/// Whether an attempt to connect was turned down, so that the next one will be too for a while.
pub(super) fn is_refusal(error: &RedisError) -> bool {
    let turned_down = matches!(
        error.kind(),
        ErrorKind::AuthenticationFailed
            | ErrorKind::InvalidClientConfig
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::Server(ServerErrorKind::NoPerm)
    );
    turned_down || error.is_connection_refusal()
}

/// Says why no connection can be made where that will not mend by itself: once, until the reason
/// is another or a connection is made. That a server is away is the breakers' to say.
#[derive(Debug, Default)]
pub(super) struct ConnectErrorLog(Mutex<Option<String>>);

impl ConnectErrorLog {
    pub(super) fn make(&self, error: &RedisError) {
        let lasting = is_refusal(error) && !error.is_connection_refusal();
        tracing::debug!(%error, "redis connection");
        // Some tell for how many seconds it has been so.
        let reason = error.to_string().replace(|c: char| c.is_ascii_digit(), "");
        let mut last = self.last();
        if lasting && last.as_ref() != Some(&reason) {
            tracing::warn!(%error, "redis cannot be connected to");
            *last = Some(reason);
        }
    }

    fn end(&self) {
        *self.last() = None;
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
