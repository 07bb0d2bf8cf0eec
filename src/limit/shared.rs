//! Windows counted in Redis, by its clock, for all replicas together.

use std::fmt::Display;
use std::time::Duration;

use redis::{ErrorKind, FromRedisValue, Value};

use super::window::{Decision, WINDOW};
use crate::redis::{NoAnswer, Prepared, RedisKeys, RedisPool, Side};

/// Counts windows in Redis, one round trip a decision.
#[derive(Debug)]
pub(super) struct SharedLimiter {
    pool: RedisPool,
    keys: RedisKeys,
    script: Prepared,
}

impl SharedLimiter {
    pub(super) fn new(pool: RedisPool, keys: RedisKeys) -> Self {
        Self { pool, keys, script: Prepared::admit() }
    }

    /// Whether Redis is known to take no counts at the moment.
    pub(super) fn is_away(&self) -> bool {
        self.pool.is_away(Side::Write)
    }

    /// Decides about one request of the key `key_id`.
    pub(super) async fn decide(
        &self,
        key_id: impl Display,
        limit: u32,
    ) -> Result<Decision, NoAnswer> {
        let key = self.keys.limit(key_id);
        let by_hash = with_arguments(self.script.by_hash(&key), limit);
        let reply = match self.pool.send(Side::Write, by_hash).await {
            // The server has forgotten the script, so it has counted nothing.
            Err(NoAnswer::Failed(error)) if Prepared::is_unknown(&error) => {
                let by_source = with_arguments(self.script.by_source(&key), limit);
                self.pool.send(Side::Write, by_source).await?
            }
            reply => reply?,
        };
        Ok(decision(limit, reply)?)
    }
}

fn with_arguments(mut command: redis::Cmd, limit: u32) -> redis::Cmd {
    command.arg(limit).arg(1).arg(WINDOW.as_millis() as u64);
    command
}

fn decision(limit: u32, reply: Value) -> Result<Decision, redis::RedisError> {
    let (admitted, count, left_ms) = <(u32, i64, i64)>::from_redis_value(reply).map_err(|_| {
        redis::RedisError::from((ErrorKind::UnexpectedReturnType, "not a window's state"))
    })?;
    let count = u32::try_from(count.max(0)).unwrap_or(u32::MAX);
    let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
    Ok(Decision::of(admitted > 0, limit, count, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().copied().map(Value::Int).collect())
    }

    #[test]
    fn replies_are_read_and_nonsense_is_refused() {
        let read = decision(30, reply(&[1, 7, 12_345])).expect("a decision");
        assert_eq!(read, Decision::of(true, 30, 7, Duration::from_millis(12_345)));
        let lowered = decision(5, reply(&[0, 7, -3])).expect("a decision");
        assert_eq!((lowered.admitted, lowered.remaining, lowered.left), (false, 0, Duration::ZERO));
        for nonsense in [reply(&[]), reply(&[1]), Value::Nil, Value::Okay] {
            assert!(decision(30, nonsense).is_err());
        }
    }
}
