//! Finds out when an unavailable Redis is available again, also on a replica without traffic.
//! Probes write only keys of their own.

use std::time::Duration;

use redis::cmd;
use tokio::time::sleep;

use super::availability::AccessMode;
use super::keys::RedisKeys;
use super::pool::RedisPool;
use super::scripts::ADMIT;

/// From one round of probes to the next.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The time to live of a probe's key, in milliseconds.
const TIME_TO_LIVE_MS: u64 = 1_000;

impl RedisPool {
    /// Probes what is unavailable, forever. Sends nothing while everything is available.
    pub async fn run_probes(&self, keys: &RedisKeys) {
        // Of the pool whose replies show whether requests can be counted.
        let pool = self.for_counters();
        loop {
            sleep(PROBE_INTERVAL).await;
            for mode in [AccessMode::Write, AccessMode::Read] {
                for key in pool.probe_keys(mode, |number| keys.probe(number)) {
                    let probe = match mode {
                        AccessMode::Read => vec![cmd("GET").arg(&key).to_owned()],
                        // The script that counts requests, since a full or read-only server still
                        // replies to reads, and a user may lack a right that only the script
                        // needs. By source first, since a server that does not know the hash would
                        // run nothing.
                        AccessMode::Write => [ADMIT.by_source(&[&key]), ADMIT.by_hash(&[&key])]
                            .map(|mut admit| admit.arg(1).arg(0).arg(TIME_TO_LIVE_MS).to_owned())
                            .to_vec(),
                    };
                    let commands = probe.into_iter().map(|one| (&*key, one));
                    // The breaker sends these in the background and learns from the replies, unless
                    // a request's command has just been its probe.
                    drop(pool.exchange(mode, commands, pool.deadline()).await);
                }
            }
        }
    }
}
