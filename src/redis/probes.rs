//! Where Redis is away and no request comes that would show its return, harmless commands do: a
//! replica without traffic says the truth too.

use std::time::Duration;

use redis::{Cmd, cmd};
use tokio::time::sleep;

use super::keys::RedisKeys;
use super::node::Side;
use super::pool::RedisPool;

/// Between two looks at what is away.
const EVERY: Duration = Duration::from_secs(1);

/// A probe's key is not looked for longer than this among the slots of a cluster.
pub(super) const MOST_KEYS: u32 = 2_000;

/// How long a probe's key stays, in milliseconds.
const LIVES_MS: u64 = 1_000;

impl RedisPool {
    /// Tries what is away, for ever. Costs nothing while nothing is.
    pub async fn keep_trying(self, keys: RedisKeys) {
        loop {
            sleep(EVERY).await;
            for side in [Side::Write, Side::Read] {
                for key in self.keys_away(side, |number| keys.probe(number)) {
                    // Its breaker sends it on and learns from the answer, unless a request's command
                    // has just done that; there is nobody to wait for it.
                    drop(self.send(side, &key, probe(side, &key)).await);
                }
            }
        }
    }
}

/// A full or read-only server answers reads: what is to be written must be tried by a write.
fn probe(side: Side, key: &str) -> Cmd {
    let mut command = match side {
        Side::Read => cmd("GET"),
        Side::Write => cmd("SET"),
    };
    command.arg(key);
    if side == Side::Write {
        command.arg("").arg("PX").arg(LIVES_MS);
    }
    command
}
