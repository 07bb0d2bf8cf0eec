//! Several scripts and commands in one round trip, healing themselves when the server has
//! forgotten a script.

use redis::{Cmd, Pipeline, RedisResult, Value};

use super::pool::{NoAnswer, RedisPool, Side};
use super::scripts::Prepared;

/// Something to be run.
#[derive(Debug)]
pub struct Call<'a> {
    script: Option<&'a Prepared>,
    key: &'a str,
    arguments: Vec<Vec<u8>>,
    command: Option<Cmd>,
}

impl<'a> Call<'a> {
    /// A script on one key.
    pub fn script(script: &'a Prepared, key: &'a str) -> Self {
        Self { script: Some(script), key, arguments: Vec::new(), command: None }
    }

    /// A command.
    pub fn command(command: Cmd) -> Self {
        Self { script: None, key: "", arguments: Vec::new(), command: Some(command) }
    }

    /// Adds an argument of a script.
    pub fn arg(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    fn by_hash(&self) -> Cmd {
        match (self.script, &self.command) {
            (Some(script), _) => self.with_arguments(script.by_hash(self.key)),
            (None, Some(command)) => command.clone(),
            (None, None) => redis::cmd("PING"),
        }
    }

    fn with_arguments(&self, mut command: Cmd) -> Cmd {
        self.arguments.iter().for_each(|argument| {
            command.arg(argument);
        });
        command
    }
}

impl RedisPool {
    /// Runs `calls` in one round trip; each has a result of its own, in the same order. Scripts
    /// that the server has forgotten are sent again by source, and only they.
    ///
    /// # Errors
    /// [`NoAnswer`], when nothing is known of any of them.
    pub async fn run(
        &self,
        side: Side,
        calls: &[Call<'_>],
    ) -> Result<Vec<RedisResult<Value>>, NoAnswer> {
        let mut pipeline = Pipeline::with_capacity(calls.len());
        calls.iter().for_each(|call| {
            pipeline.add_command(call.by_hash());
        });
        let mut replies = self.send_all(side, pipeline).await?;
        let mut again = Pipeline::new();
        let mut places = Vec::new();
        for (place, (call, reply)) in calls.iter().zip(&replies).enumerate() {
            if let (Some(script), Err(error)) = (call.script, reply)
                && Prepared::is_unknown(error)
            {
                again.add_command(call.with_arguments(script.by_source(call.key)));
                places.push(place);
            }
        }
        if !places.is_empty() {
            // Where that fails, these still have their error, and the others their answer.
            let healed = self.send_all(side, again).await.unwrap_or_default();
            for (place, reply) in places.into_iter().zip(healed) {
                replies[place] = reply;
            }
        }
        Ok(replies)
    }
}
