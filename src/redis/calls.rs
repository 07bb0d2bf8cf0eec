//! Runs several scripts and commands in one exchange, and sends a script again by its source when
//! the server does not know it yet.

use redis::{Cmd, RedisResult, Value};

use super::failure::RedisFailure;
use super::node::AccessMode;
use super::pool::RedisPool;
use super::scripts::LuaScript;

/// A script or a command with its arguments. In a cluster its key decides which node runs it.
#[derive(Debug)]
pub struct Call<'a> {
    key: &'a str,
    kind: CallKind<'a>,
}

#[derive(Debug)]
enum CallKind<'a> {
    Script { script: &'a LuaScript, arguments: Vec<Vec<u8>> },
    Command(Cmd),
}

impl<'a> Call<'a> {
    /// A script on one key, without arguments yet.
    pub fn script(script: &'a LuaScript, key: &'a str) -> Self {
        Self { key, kind: CallKind::Script { script, arguments: Vec::new() } }
    }

    /// A command that reads or writes `key`.
    pub fn command(key: &'a str, command: Cmd) -> Self {
        Self { key, kind: CallKind::Command(command) }
    }

    /// Appends an argument.
    pub fn arg(mut self, argument: impl Into<Vec<u8>>) -> Self {
        match &mut self.kind {
            CallKind::Script { arguments, .. } => arguments.push(argument.into()),
            CallKind::Command(command) => {
                command.arg(argument.into());
            }
        }
        self
    }

    fn first_attempt(&self) -> Cmd {
        match &self.kind {
            CallKind::Script { script, arguments } => {
                with_arguments(script.by_hash(self.key), arguments)
            }
            CallKind::Command(command) => command.clone(),
        }
    }

    /// The script by source, if the server did not run it because it does not know its hash.
    fn retry(&self, reply: &RedisResult<Value>) -> Option<Cmd> {
        match (&self.kind, reply) {
            (CallKind::Script { script, arguments }, Err(error))
                if LuaScript::is_unknown(error) =>
            {
                Some(with_arguments(script.by_source(self.key), arguments))
            }
            _ => None,
        }
    }
}

fn with_arguments(mut command: Cmd, arguments: &[Vec<u8>]) -> Cmd {
    arguments.iter().for_each(|argument| {
        command.arg(argument);
    });
    command
}

impl RedisPool {
    /// Runs `calls` in one exchange. The results are in the order of the calls. Scripts that a
    /// server does not know, and only they, are sent again by source.
    ///
    /// # Errors
    /// [`RedisFailure`] when nothing is known of any call; never later than `redis.timeout_ms`.
    pub async fn run(
        &self,
        mode: AccessMode,
        calls: &[Call<'_>],
    ) -> Result<Vec<RedisResult<Value>>, RedisFailure> {
        let deadline = self.deadline();
        let commands = calls.iter().map(|call| (call.key, call.first_attempt()));
        let mut replies = self.exchange(mode, commands, deadline).await?;
        let (mut retries, mut indices) = (Vec::new(), Vec::new());
        for (index, (call, reply)) in calls.iter().zip(&replies).enumerate() {
            if let Some(command) = call.retry(reply) {
                retries.push((call.key, command));
                indices.push(index);
            }
        }
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
