//! Where Redis is away and no request comes that would show its return, harmless commands do: a
//! replica without traffic says the truth too.

use std::time::Duration;

use redis::{Cmd, cmd};
use tokio::time::sleep;

use super::keys::RedisKeys;
use super::node::AccessMode;
use super::pool::RedisPool;
use super::scripts::{CacheScripts, LuaScript};

/// Between two looks at what is away.
const EVERY: Duration = Duration::from_secs(1);

/// A probe's key is looked for among so many, in the slots of a cluster's node.
pub(super) const MAX_PROBE_KEYS: u32 = 2_000;

/// How long a probe's key stays, in milliseconds.
const LIVES_MS: u64 = 1_000;

impl RedisPool {
    /// Tries what is away, for ever. Costs nothing while nothing is.
    pub async fn run_probes(self, keys: RedisKeys) {
        let (admit, keep) = (LuaScript::admit(), CacheScripts::default().put_if_newer);
        loop {
            sleep(EVERY).await;
            for mode in [AccessMode::Write, AccessMode::Read] {
                for key in self.probe_keys(mode, |number| keys.probe(number)) {
                    let probe = match mode {
                        AccessMode::Read => vec![read(&key)],
                        AccessMode::Write => {
                            vec![count_nothing(&admit, &key), keep_nothing(&keep, &key)]
                        }
                    };
                    let commands: Vec<_> = probe.into_iter().map(|one| (&*key, one)).collect();
                    // Its breaker sends it on and learns from the answers, unless a request's
                    // command has just done that; there is nobody to wait for them.
                    drop(self.exchange(mode, commands.into_iter(), self.deadline()).await);
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
fn count_nothing(admit: &LuaScript, key: &str) -> Cmd {
    let mut command = admit.by_source(key);
    command.arg(1).arg(0).arg(LIVES_MS);
    command
}

fn keep_nothing(keep: &LuaScript, key: &str) -> Cmd {
    let mut command = keep.by_source(key);
    command.arg("").arg("").arg(LIVES_MS).arg("");
    command
}
