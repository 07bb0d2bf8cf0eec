//! Finding the primary that sentinels know.
//!
//! All sentinels are asked side by side, so that one that hangs costs nothing; whom they name is
//! connected to in the order of their answers, until one says itself that it is a primary: a
//! sentinel that was cut off goes on naming the old one.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Value, cmd};

use super::dial::{dial, late};
use super::servers::{Sentinels, Server};

/// A connection to the primary, and its address.
#[derive(Debug)]
pub(super) struct Primary {
    pub(super) connection: MultiplexedConnection,
    pub(super) address: String,
}

impl Sentinels {
    /// Connects to the primary. Each of the two steps, asking and connecting, takes `timeout` at
    /// most for each server; nobody's request waits for that.
    ///
    /// # Errors
    /// When no sentinel names one that can be connected to: what the last of them came to.
    pub(super) async fn primary(&self, timeout: Duration) -> RedisResult<Primary> {
        let mut named: FuturesUnordered<_> =
            self.nodes.iter().map(|sentinel| self.ask(sentinel, timeout)).collect();
        let mut tried = Vec::new();
        let mut failure = RedisError::from((ErrorKind::EmptySentinelList, "no sentinel to ask"));
        while let Some(answer) = named.next().await {
            match answer {
                Ok(primary) if tried.contains(&primary.at) => {}
                Ok(primary) => match connect(&primary, timeout).await {
                    Ok(connection) => {
                        return Ok(Primary { connection, address: primary.at.to_string() });
                    }
                    Err(error) => {
                        failure = error;
                        tried.push(primary.at);
                    }
                },
                // What became of a primary says more.
                Err(error) if tried.is_empty() => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }

    async fn ask(&self, sentinel: &Server, timeout: Duration) -> RedisResult<Server> {
        let asked = async {
            let mut connection = dial(sentinel, timeout).await?;
            let mut question = cmd("SENTINEL");
            question.arg("GET-MASTER-ADDR-BY-NAME").arg(&*self.service);
            question.query_async::<Value>(&mut connection).await
        };
        let answer = tokio::time::timeout(timeout, asked).await;
        let answer = answer.map_err(|_| late("no answer from a sentinel in time"))??;
        if answer == Value::Nil {
            let what = "redis.sentinel.service: the sentinels know no primary of that name";
            return Err((ErrorKind::MasterNameNotFoundBySentinel, what).into());
        }
        let (host, port) = <(String, u16)>::from_redis_value(answer)?;
        Ok(sentinel.moved(&host, port).known_as(self.login.clone()))
    }
}

/// A connection to a server that says that it is a primary, or that may not be asked.
async fn connect(server: &Server, timeout: Duration) -> RedisResult<MultiplexedConnection> {
    let mut connection = dial(server, timeout).await?;
    let role: RedisResult<Vec<Value>> = cmd("ROLE").query_async(&mut connection).await;
    match role.as_deref().map(<[_]>::first) {
        Ok(Some(Value::BulkString(role))) if role != b"master" => {
            Err((ErrorKind::Io, "the server that the sentinels name is no primary yet").into())
        }
        _ => Ok(connection),
    }
}
