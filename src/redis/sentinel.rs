//! Finds the primary through the sentinels.
//!
//! All sentinels are asked in parallel, so one that hangs delays nothing. The servers that they
//! name are tried in the order of the replies until one confirms that it is a primary: a
//! partitioned sentinel may still name the old primary.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{ConnectionAddr, ErrorKind, FromRedisValue, RedisError, RedisResult, Value, cmd};

use super::dial::{dial, timeout_error};
use super::servers::{Sentinels, Server};

impl Sentinels {
    /// Connects to the primary, and returns its address too. Asking a sentinel and connecting to a
    /// server take up to `timeout` each.
    ///
    /// # Errors
    /// The last error, if no sentinel names a primary that can be connected to.
    pub(super) async fn primary(
        &self,
        timeout: Duration,
    ) -> RedisResult<(MultiplexedConnection, ConnectionAddr)> {
        let mut replies: FuturesUnordered<_> =
            self.nodes.iter().map(|sentinel| self.ask(sentinel, timeout)).collect();
        let mut tried = Vec::new();
        let mut failure = RedisError::from((ErrorKind::EmptySentinelList, "no sentinel to ask"));
        while let Some(reply) = replies.next().await {
            match reply {
                Ok(primary) if tried.contains(&primary.address) => {}
                Ok(primary) => match connect(&primary, timeout).await {
                    Ok(connection) => return Ok((connection, primary.address)),
                    Err(error) => {
                        failure = error;
                        tried.push(primary.address);
                    }
                },
                // The error of a named primary is more useful than a sentinel's.
                Err(error) if tried.is_empty() => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }

    async fn ask(&self, sentinel: &Server, timeout: Duration) -> RedisResult<Server> {
        let ask = async {
            let mut connection = dial(sentinel, timeout).await?;
            let mut command = cmd("SENTINEL");
            command.arg("GET-MASTER-ADDR-BY-NAME").arg(&*self.service);
            command.query_async::<Value>(&mut connection).await
        };
        let reply = tokio::time::timeout(timeout, ask).await;
        let reply = reply.map_err(|_| timeout_error("a sentinel did not reply in time"))??;
        if reply == Value::Nil {
            let what = "redis.sentinel.service: the sentinels know no primary of that name";
            return Err((ErrorKind::MasterNameNotFoundBySentinel, what).into());
        }
        let (host, port) = <(String, u16)>::from_redis_value(reply)?;
        Ok(Server { login: self.login.clone(), ..sentinel.moved(&host, port) })
    }
}

/// Connects to a server, unless it reports that it is not a primary. A server that refuses `ROLE`
/// is accepted.
async fn connect(server: &Server, timeout: Duration) -> RedisResult<MultiplexedConnection> {
    let mut connection = dial(server, timeout).await?;
    let role: RedisResult<Vec<Value>> = cmd("ROLE").query_async(&mut connection).await;
    match role.as_deref().map(<[_]>::first) {
        Ok(Some(Value::BulkString(role))) if role != b"master" => Err((
            ErrorKind::Io,
            "the server that the sentinels name reports that it is not a primary",
        )
            .into()),
        _ => Ok(connection),
    }
}
