//! Where Redis is away and no request comes that would show its return, harmless commands do: a
//! replica without traffic says the truth too.

use std::time::Duration;

use redis::{Cmd, cmd};
use tokio::time::sleep;

use super::keys::RedisKeys;
use super::node::Side;
use super::pool::RedisPool;
use super::scripts::{CacheScripts, Prepared};

/// Between two looks at what is away.
const EVERY: Duration = Duration::from_secs(1);

/// A probe's key is looked for among so many, in the slots of a cluster's node.
pub(super) const MOST_KEYS: u32 = 2_000;

/// How long a probe's key stays, in milliseconds.
const LIVES_MS: u64 = 1_000;

impl RedisPool {
    /// Tries what is away, for ever. Costs nothing while nothing is.
    pub async fn keep_trying(self, keys: RedisKeys) {
        let (admit, keep) = (Prepared::admit(), CacheScripts::default().keep);
        loop {
            sleep(EVERY).await;
            for side in [Side::Write, Side::Read] {
                for key in self.keys_away(side, |number| keys.probe(number)) {
                    let probe = match side {
                        Side::Read => vec![read(&key)],
                        Side::Write => vec![count_nothing(&admit, &key), keep_nothing(&keep, &key)],
                    };
                    let commands: Vec<_> = probe.into_iter().map(|one| (&*key, one)).collect();
                    // Its breaker sends it on and learns from the answers, unless a request's
                    // command has just done that; there is nobody to wait for them.
                    drop(self.exchange(side, commands.into_iter(), self.deadline()).await);
                }
            }
        }
    }
}

fn read(key: &str) -> Cmd {
    let mut command = cmd("GET");
    command.arg(key);
    command
}

/// Writes are tried by what writes, as a full or read-only server answers reads, and a user may
/// lack any right of those that the scripts need. By source: a server that has forgotten a script
/// would say no more than that.
fn count_nothing(admit: &Prepared, key: &str) -> Cmd {
    let mut command = admit.by_source(key);
    command.arg(1).arg(0).arg(LIVES_MS);
    command
}

fn keep_nothing(keep: &Prepared, key: &str) -> Cmd {
    let mut command = keep.by_source(key);
    command.arg("").arg("").arg(LIVES_MS).arg("");
    command
}
