//! Runs several scripts and commands in one exchange, and sends a script again by its source when
//! the server does not know its hash yet.

use redis::{Cmd, RedisResult, ToRedisArgs, Value};

use super::failure::RedisFailure;
use super::node::AccessMode;
use super::pool::RedisPool;
use super::scripts::LuaScript;

/// A script or a command with its arguments. In a cluster its key decides which node runs it.
#[derive(Debug)]
pub struct Call<'a> {
    key: &'a str,
    /// Runs a script by its hash.
    command: Cmd,
    script: Option<&'static LuaScript>,
}

impl<'a> Call<'a> {
    /// A script on one key, without arguments yet.
    pub fn script(script: &'static LuaScript, key: &'a str) -> Self {
        Self { key, command: script.by_hash(key), script: Some(script) }
    }

    /// A command that reads or writes `key`.
    pub fn command(key: &'a str, command: Cmd) -> Self {
        Self { key, command, script: None }
    }

    /// Appends an argument.
    pub fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }

    /// The script by its source, if the server did not run it because it does not know its hash.
    fn retry(&self, reply: &RedisResult<Value>) -> Option<Cmd> {
        let is_unknown = reply.as_ref().is_err_and(LuaScript::is_unknown);
        self.script.filter(|_| is_unknown).map(|script| script.with_source(&self.command))
    }
}

impl RedisPool {
    /// Runs `calls` in one exchange and returns one result for each, in their order. Only scripts
    /// that a server does not know are sent again, by their source.
    ///
    /// # Errors
    /// [`RedisFailure`] when no call has a reply; never later than `redis.timeout_ms`.
    pub async fn run(
        &self,
        mode: AccessMode,
        calls: &[Call<'_>],
    ) -> Result<Vec<RedisResult<Value>>, RedisFailure> {
        let deadline = self.deadline();
        let commands = calls.iter().map(|call| (call.key, call.command.clone()));
        let mut replies = self.exchange(mode, commands, deadline).await?;
        let unknown =
            calls.iter().zip(&replies).enumerate().filter_map(|(index, (call, reply))| {
                call.retry(reply).map(|command| (index, (call.key, command)))
            });
        let (indices, retries): (Vec<_>, Vec<_>) = unknown.unzip();
        if !indices.is_empty() {
            // Where this fails, these calls keep their error and the others their reply.
            let retried = self.exchange(mode, retries.into_iter(), deadline).await;
            for (index, reply) in indices.into_iter().zip(retried.unwrap_or_default()) {
                replies[index] = reply;
            }
        }
        Ok(replies)
    }
}
