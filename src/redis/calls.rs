//! Runs several scripts and commands in one exchange, and sends a script again by its source when
//! the server does not know its hash yet.

use redis::{Cmd, RedisResult, ToRedisArgs, Value};

use super::availability::AccessMode;
use super::failure::{RedisFailure, unexpected};
use super::pool::RedisPool;
use super::scripts::LuaScript;

/// A script or a command with its arguments. In a cluster its key decides which node runs it.
#[derive(Debug)]
pub struct Call {
    key: String,
    /// Runs a script by its hash.
    command: Cmd,
    script: Option<&'static LuaScript>,
}

impl Call {
    /// A script on one key, without arguments yet.
    pub fn script(script: &'static LuaScript, key: impl Into<String>) -> Self {
        let key = key.into();
        Self { command: script.by_hash(&[&key]), key, script: Some(script) }
    }

    /// A script on two keys of the same slot, without arguments yet.
    pub fn script_on(script: &'static LuaScript, keys: [&str; 2]) -> Self {
        let [key, _] = keys;
        Self { command: script.by_hash(&keys), key: key.to_owned(), script: Some(script) }
    }

    /// A command that reads or writes `key`.
    pub fn command(key: &str, command: Cmd) -> Self {
        Self { key: key.to_owned(), command, script: None }
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
    /// [`RedisFailure`] when no call has a reply; never later than `redis.timeout_ms`, except that large
    /// values may first wait for others.
    pub async fn run(
        &self,
        mode: AccessMode,
        calls: &[Call],
    ) -> Result<Vec<RedisResult<Value>>, RedisFailure> {
        let deadline = self.deadline();
        let commands = calls.iter().map(|call| (&*call.key, call.command.clone()));
        let mut replies = self.exchange(mode, commands, deadline).await?;
        let unknown =
            calls.iter().zip(&replies).enumerate().filter_map(|(index, (call, reply))| {
                call.retry(reply).map(|command| (index, (&*call.key, command)))
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

    /// Reads by one call.
    ///
    /// # Errors
    /// [`RedisFailure`], also for a reply that is an error; never later than `redis.timeout_ms`.
    pub async fn read(&self, call: Call) -> Result<Value, RedisFailure> {
        let reply = self.run(AccessMode::Read, &[call]).await?.pop();
        Ok(reply.unwrap_or_else(|| Err(unexpected("no reply")))?)
    }
}
