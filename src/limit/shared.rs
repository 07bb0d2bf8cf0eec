//! Windows counted in Redis, by its clock, for all replicas together.
//!
//! Each command touches one key, so all of this is valid in Redis Cluster, but for one thing: a
//! pipeline there can't cross slots. [`RedisWindows::send`] is where the commands of a batch would
//! be parted by slot and sent side by side; nothing else knows that they travel together.

use std::fmt::Display;
use std::time::Duration;

use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, Value};

use super::store::{Ask, Replies, Store};
use super::window::{Standing, WINDOW};
use crate::redis::{NoAnswer, Prepared, RedisKeys, RedisPool, Side};

/// Counts windows in Redis: one command a key, one round trip a batch.
#[derive(Debug)]
pub(super) struct RedisWindows {
    pool: RedisPool,
    keys: RedisKeys,
    script: Prepared,
}

impl RedisWindows {
    pub(super) fn new(pool: RedisPool, keys: RedisKeys) -> Self {
        Self { pool, keys, script: Prepared::admit() }
    }

    async fn send(
        &self,
        commands: impl Iterator<Item = Cmd>,
    ) -> Result<Vec<RedisResult<Value>>, NoAnswer> {
        let mut pipeline = Pipeline::new();
        commands.for_each(|command| {
            pipeline.add_command(command);
        });
        self.pool.send_all(Side::Write, pipeline).await
    }

    fn by_hash(&self, ask: &Ask<impl Display>) -> Cmd {
        with_arguments(self.script.by_hash(&self.keys.limit(&ask.key)), ask)
    }

    fn by_source(&self, ask: &Ask<impl Display>) -> Cmd {
        with_arguments(self.script.by_source(&self.keys.limit(&ask.key)), ask)
    }

    /// Sends again, once and with the source, the commands that the server did not run because it
    /// has forgotten the script. The others were counted and are left alone.
    async fn heal<K: Display + Sync>(&self, asks: &[Ask<K>], replies: &mut [RedisResult<Value>]) {
        let unknown =
            |reply: &RedisResult<Value>| matches!(reply, Err(e) if Prepared::is_unknown(e));
        let (again, healed): (Vec<_>, Vec<_>) =
            asks.iter().zip(replies).filter(|(_, reply)| unknown(reply)).unzip();
        if again.is_empty() {
            return;
        }
        match self.send(again.into_iter().map(|ask| self.by_source(ask))).await {
            Ok(second) => healed.into_iter().zip(second).for_each(|(reply, new)| *reply = new),
            Err(error) => tracing::debug!(%error, "the script could not be sent again"),
        }
    }
}

impl<K: Display + Send + Sync + 'static> Store<K> for RedisWindows {
    async fn admit(&self, asks: &[Ask<K>]) -> Result<Replies, NoAnswer> {
        let mut replies = self.send(asks.iter().map(|ask| self.by_hash(ask))).await?;
        replies.resize_with(asks.len(), || Err(unexpected("no reply to a command")));
        self.heal(asks, &mut replies).await;
        let standings = asks.iter().zip(replies).map(|(ask, reply)| {
            let standing = reply.and_then(|reply| standing(ask.requests, reply));
            standing.map_err(NoAnswer::from)
        });
        Ok(standings.collect())
    }

    fn is_away(&self) -> bool {
        self.pool.is_away(Side::Write)
    }
}

fn with_arguments<K>(mut command: Cmd, ask: &Ask<K>) -> Cmd {
    command.arg(ask.limit).arg(ask.requests).arg(WINDOW.as_millis() as u64);
    command
}

fn standing(asked: u32, reply: Value) -> RedisResult<Standing> {
    let (admitted, count, left_ms) = <(u32, i64, i64)>::from_redis_value(reply)
        .map_err(|_| unexpected("not a window's state"))?;
    Ok(Standing {
        admitted: admitted.min(asked),
        count: u32::try_from(count.max(0)).unwrap_or(u32::MAX),
        left: Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)).min(WINDOW),
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
        let left = Duration::from_millis(12_345);
        assert_eq!(read, Standing { admitted: 1, count: 7, left });
        let odd = standing(2, reply(&[3, -7, -3])).expect("a standing");
        assert_eq!(odd, Standing { admitted: 2, count: 0, left: Duration::ZERO });
        let huge = standing(1, reply(&[0, i64::MAX, i64::MAX])).expect("a standing");
        assert_eq!((huge.count, huge.left), (u32::MAX, WINDOW));
        for nonsense in [reply(&[]), reply(&[1]), Value::Nil, Value::Okay] {
            assert!(standing(1, nonsense).is_err());
        }
    }
}
