//! Connections for the pool, and the truth about whether they still work.
//!
//! The stock manager says of every connection that it is fine, and a multiplexed connection
//! does not reconnect by itself. Here a connection that was left in the middle of a command,
//! or that failed, never goes back into the pool; and when one connection is found dead, all
//! that are as old as it are tried no more. Checking one out costs no round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bb8::ManageConnection;
use bb8_redis::RedisConnectionManager;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    ErrorKind, IntoConnectionInfo, Pipeline, RedisError, RedisResult, ServerErrorKind, Value,
};

/// Makes connections and judges them.
#[derive(Debug)]
pub(super) struct Manager {
    inner: RedisConnectionManager,
    timeout: Duration,
    generation: Arc<AtomicU64>,
}

/// A connection that knows whether it can be used again.
#[derive(Debug)]
pub(super) struct Connection {
    inner: MultiplexedConnection,
    usable: bool,
    generation: u64,
    newest: Arc<AtomicU64>,
}

impl Manager {
    pub(super) fn new(info: impl IntoConnectionInfo, timeout: Duration) -> RedisResult<Self> {
        let inner = RedisConnectionManager::new(info)?;
        Ok(Self { inner, timeout, generation: Arc::default() })
    }
}

impl ManageConnection for Manager {
    type Connection = Connection;
    type Error = RedisError;

    async fn connect(&self) -> RedisResult<Connection> {
        let generation = self.generation.load(Ordering::Acquire);
        let mut inner = tokio::time::timeout(self.timeout, self.inner.connect())
            .await
            .map_err(|_| RedisError::from((ErrorKind::Io, "no connection in time")))??;
        // The library's own limit, which would cut a longer configured one short.
        inner.set_response_timeout(self.timeout);
        Ok(Connection { inner, usable: true, generation, newest: Arc::clone(&self.generation) })
    }

    async fn is_valid(&self, connection: &mut Connection) -> RedisResult<()> {
        if connection.generation == self.generation.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err((ErrorKind::Io, "as old as a connection that was found dead").into())
        }
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        !connection.usable
    }
}

impl Connection {
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
/// primary by now.
fn must_reconnect(reply: &RedisResult<Value>) -> bool {
    let Err(error) = reply else { return false };
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly) || error.is_unrecoverable_error()
}
