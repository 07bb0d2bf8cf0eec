//! Windows counted in Redis, by its clock, for all replicas together.
//!
//! Each command touches one key, so all of this is valid in Redis Cluster, where the commands of a
//! batch are sent to their nodes side by side.

use std::fmt::Display;
use std::time::Duration;

use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Value};

use super::store::{Acquire, Replies, Store};
use super::window::{WINDOW, WindowState};
use crate::redis::{AccessMode, Call, LuaScript, RedisFailure, RedisKeys, RedisPool};

/// Counts windows in Redis: one command a key, one exchange a batch.
#[derive(Debug)]
pub(super) struct RedisWindows {
    pool: RedisPool,
    keys: RedisKeys,
    script: LuaScript,
}

impl RedisWindows {
    pub(super) fn new(pool: RedisPool, keys: RedisKeys) -> Self {
        Self { pool, keys, script: LuaScript::admit() }
    }

    fn call<'a, K>(&'a self, ask: &Acquire<K>, key: &'a str) -> Call<'a> {
        let numbers = [ask.limit.into(), ask.requests.into(), WINDOW.as_millis()];
        let call = Call::script(&self.script, key);
        numbers.iter().fold(call, |call, number| call.arg(number.to_string()))
    }
}

impl<K: Display + Send + Sync + 'static> Store<K> for RedisWindows {
    async fn admit(&self, asks: &[Acquire<K>]) -> Result<Replies, RedisFailure> {
        let keys: Vec<_> = asks.iter().map(|ask| self.keys.limit(&ask.key)).collect();
        let calls: Vec<_> = asks.iter().zip(&keys).map(|(ask, key)| self.call(ask, key)).collect();
        let mut replies = self.pool.run(AccessMode::Write, &calls).await?;
        replies.resize_with(asks.len(), || Err(unexpected("no reply to a command")));
        let standings = asks.iter().zip(replies).map(|(ask, reply)| {
            let standing = reply.and_then(|reply| standing(ask.requests, reply));
            standing.map_err(RedisFailure::from)
        });
        Ok(standings.collect())
    }

    fn is_unavailable(&self) -> bool {
        !self.pool.is_fully_available(AccessMode::Write)
    }

    fn part(&self, key: &K) -> u16 {
        self.pool.part(&self.keys.limit(key))
    }
}

fn standing(asked: u32, reply: Value) -> RedisResult<WindowState> {
    let (admitted, count, left_ms) = <(u32, i64, i64)>::from_redis_value(reply)
        .map_err(|_| unexpected("not a window's state"))?;
    Ok(WindowState {
        admitted: admitted.min(asked),
        count: u32::try_from(count.max(0)).unwrap_or(u32::MAX),
        resets_in: Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)).min(WINDOW),
    })
}

fn unexpected(what: &'static str) -> RedisError {
    (ErrorKind::UnexpectedReturnType, what).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().copied().map(Value::Int).collect())
    }

    #[test]
    fn replies_are_read_and_nonsense_is_refused() {
        let read = standing(1, reply(&[1, 7, 12_345])).expect("a standing");
        let resets_in = Duration::from_millis(12_345);
        assert_eq!(read, WindowState { admitted: 1, count: 7, resets_in });
        let odd = standing(2, reply(&[3, -7, -3])).expect("a standing");
        assert_eq!(odd, WindowState { admitted: 2, count: 0, resets_in: Duration::ZERO });
        let huge = standing(1, reply(&[0, i64::MAX, i64::MAX])).expect("a standing");
        assert_eq!((huge.count, huge.resets_in), (u32::MAX, WINDOW));
        for nonsense in [reply(&[]), reply(&[1]), Value::Nil, Value::Okay] {
            assert!(standing(1, nonsense).is_err());
        }
    }
}
