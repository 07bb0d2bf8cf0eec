//! Windows counted in Redis, by its clock, for all replicas together.
//!
//! Each command uses one key, as Redis Cluster requires. There, the commands of a batch are sent to
//! their nodes in parallel.

use std::fmt::Display;
use std::time::Duration;

use redis::{FromRedisValue, RedisResult, Value};

use super::window::{WINDOW, WindowState};
use super::window_store::{Acquire, AcquireReplies, WindowStore};
use crate::redis::scripts::ADMIT;
use crate::redis::{AccessMode, Call, RedisFailure, RedisKeys, RedisPool};

/// Counts windows in Redis: one command for each key and limit, one exchange for each batch.
#[derive(Debug)]
pub struct RedisWindows {
    pool: RedisPool,
    keys: RedisKeys,
}

impl RedisWindows {
    pub(super) fn new(pool: RedisPool, keys: RedisKeys) -> Self {
        Self { pool, keys }
    }

    fn call<K: Display>(&self, acquire: &Acquire<K>) -> Call {
        let call = Call::script(&ADMIT, self.keys.limit(&acquire.key));
        call.arg(acquire.limit).arg(acquire.requests).arg(WINDOW.as_millis())
    }
}

impl<K: Display + Send + Sync + 'static> WindowStore<K> for RedisWindows {
    async fn admit(&self, acquires: &[Acquire<K>]) -> Result<AcquireReplies, RedisFailure> {
        let calls: Vec<_> = acquires.iter().map(|one| self.call(one)).collect();
        let replies = self.pool.run(AccessMode::Write, &calls).await?;
        let windows = acquires.iter().zip(replies).map(|(acquire, reply)| {
            let window = reply.and_then(|reply| read_window(acquire.requests, reply));
            window.map_err(RedisFailure::from)
        });
        Ok(windows.collect())
    }

    fn is_unavailable(&self) -> bool {
        !self.pool.is_fully_available(AccessMode::Write)
    }

    fn shard(&self, key: &K) -> u16 {
        self.pool.shard(&self.keys.limit(key))
    }

    fn server(&self, key: &K) -> usize {
        self.pool.node_index(|| self.keys.limit(key))
    }
}

/// The reply of the script to a command for `requests` requests.
fn read_window(requests: u32, reply: Value) -> RedisResult<WindowState> {
    let (admitted, count, resets_in_ms) = <(u32, i64, i64)>::from_redis_value(reply)?;
    Ok(WindowState {
        admitted: admitted.min(requests),
        count: u32::try_from(count.max(0)).unwrap_or(u32::MAX),
        resets_in: Duration::from_millis(u64::try_from(resets_in_ms).unwrap_or(0)).min(WINDOW),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().copied().map(Value::Int).collect())
    }

    #[test]
    fn valid_replies_are_read_and_others_are_errors() {
        let read = read_window(1, reply(&[1, 7, 12_345])).expect("a window");
        let resets_in = Duration::from_millis(12_345);
        assert_eq!(read, WindowState { admitted: 1, count: 7, resets_in });
        let odd = read_window(2, reply(&[3, -7, -3])).expect("a window");
        assert_eq!(odd, WindowState { admitted: 2, count: 0, resets_in: Duration::ZERO });
        let huge = read_window(1, reply(&[0, i64::MAX, i64::MAX])).expect("a window");
        assert_eq!((huge.count, huge.resets_in), (u32::MAX, WINDOW));
        for nonsense in [reply(&[]), reply(&[1]), Value::Nil, Value::Okay] {
            assert!(read_window(1, nonsense).is_err());
        }
    }
}
