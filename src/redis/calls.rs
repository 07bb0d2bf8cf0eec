//! Several scripts and commands at once, healing themselves when the server has
//! forgotten a script.

use redis::{Cmd, RedisResult, Value};

use super::answer::RedisFailure;
use super::node::AccessMode;
use super::pool::RedisPool;
use super::scripts::LuaScript;

/// Something to be run. Its key says where, in a cluster.
#[derive(Debug)]
pub struct Call<'a> {
    key: &'a str,
    what: CallKind<'a>,
}

#[derive(Debug)]
enum CallKind<'a> {
    Script { script: &'a LuaScript, arguments: Vec<Vec<u8>> },
    Command(Cmd),
}

impl<'a> Call<'a> {
    /// A script on one key. Arguments follow.
    pub fn script(script: &'a LuaScript, key: &'a str) -> Self {
        Self { key, what: CallKind::Script { script, arguments: Vec::new() } }
    }

    /// A command that concerns `key`.
    pub fn command(key: &'a str, command: Cmd) -> Self {
        Self { key, what: CallKind::Command(command) }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<Vec<u8>>) -> Self {
        match &mut self.what {
            CallKind::Script { arguments, .. } => arguments.push(argument.into()),
            CallKind::Command(command) => {
                command.arg(argument.into());
            }
        }
        self
    }

    fn first_try(&self) -> Cmd {
        match &self.what {
            CallKind::Script { script, arguments } => with(script.by_hash(self.key), arguments),
            CallKind::Command(command) => command.clone(),
        }
    }

    /// By source, where the server has not run it because it does not know the script.
    fn second_try(&self, reply: &RedisResult<Value>) -> Option<Cmd> {
        match (&self.what, reply) {
            (CallKind::Script { script, arguments }, Err(error))
                if LuaScript::is_unknown(error) =>
            {
                Some(with(script.by_source(self.key), arguments))
            }
            _ => None,
        }
    }
}

fn with(mut command: Cmd, arguments: &[Vec<u8>]) -> Cmd {
    arguments.iter().for_each(|argument| {
        command.arg(argument);
    });
    command
}

impl RedisPool {
    /// Runs `calls` at once; each has a result of its own, in the same order. Scripts that a server
    /// has forgotten are sent again by source, and only they.
    ///
    /// # Errors
    /// [`RedisFailure`], when nothing is known of any of them; never later than `redis.timeout_ms`
    /// after the call.
    pub async fn run(
        &self,
        mode: AccessMode,
        calls: &[Call<'_>],
    ) -> Result<Vec<RedisResult<Value>>, RedisFailure> {
        let deadline = self.deadline();
        let commands = calls.iter().map(|call| (call.key, call.first_try()));
        let mut replies = self.exchange(mode, commands, deadline).await?;
        let (mut again, mut owner_indices) = (Vec::new(), Vec::new());
        for (place, (call, reply)) in calls.iter().zip(&replies).enumerate() {
            if let Some(command) = call.second_try(reply) {
                again.push((call.key, command));
                owner_indices.push(place);
            }
        }
        if !owner_indices.is_empty() {
            // Where that fails, these still have their error, and the others their answer.
            let healed = self.exchange(mode, again.into_iter(), deadline).await;
            for (place, reply) in owner_indices.into_iter().zip(healed.unwrap_or_default()) {
                replies[place] = reply;
            }
        }
        Ok(replies)
    }
}
