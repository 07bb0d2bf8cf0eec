//! Counts the use of keys in memory and writes the counts to the store in batches, never while a
//! request waits. A batch that can't be written is lost and logged, since writing it twice could
//! count it twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::store::{KeyStore, Usage};
use crate::registry::{KeyHash, Timestamp};
use crate::sync::{lock, supervise};

/// The maximal number of keys that each shard counts. The use of further keys is not counted until
/// the next batch is taken.
const KEYS_IN_SHARD: usize = 4_000;

/// Shards with a lock each, so that requests of different keys rarely wait for each other.
const SHARDS: usize = 16;

/// The maximal time for the last batch, at shutdown.
const LAST_BATCH_TIMEOUT: Duration = Duration::from_secs(3);

/// The use of keys in this replica since the last batch, for a bounded number of keys.
#[derive(Debug, Default)]
pub struct UsageCounts {
    shards: [Mutex<HashMap<KeyHash, (Timestamp, u64)>>; SHARDS],
    not_counted: AtomicU64,
}

impl UsageCounts {
    /// Counts a request with this key at `now`, by the upstream's clock.
    pub fn record(&self, key: &KeyHash, now: Timestamp) {
        let mut shard = lock(&self.shards[usize::from(key.0[0]) % SHARDS]);
        if let Some((last, requests)) = shard.get_mut(key) {
            *last = now.max(*last);
            *requests += 1;
        } else if shard.len() < KEYS_IN_SHARD {
            shard.insert(*key, (now, 1));
        } else {
            self.not_counted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes everything counted since the last call.
    fn take(&self) -> Vec<Usage> {
        let shards = self.shards.iter().flat_map(|shard| std::mem::take(&mut *lock(shard)));
        shards
            .map(|(key, (last_used_at, requests))| Usage { key, last_used_at, requests })
            .collect()
    }
}

/// The task that writes counts to the store.
#[derive(Debug)]
pub struct UsageWriter {
    stop: CancellationToken,
    writing: AbortOnDropHandle<()>,
}

impl UsageWriter {
    /// Starts to write a batch of `counts` to `store` in each `interval`.
    pub fn start(counts: Arc<UsageCounts>, store: Arc<dyn KeyStore>, interval: Duration) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let writing = supervise("key_usage", move || {
            let (counts, store, stopped) =
                (Arc::clone(&counts), Arc::clone(&store), stopped.clone());
            async move {
                // A batch under way is not cancelled: it would be lost without a log line.
                while stopped.run_until_cancelled(sleep(interval)).await.is_some() {
                    write(&counts, &*store).await;
                }
                write(&counts, &*store).await;
            }
        });
        Self { stop, writing }
    }

    /// Stops the task after a last batch, which may take up to three seconds.
    pub async fn finish(self) {
        self.stop.cancel();
        if timeout(LAST_BATCH_TIMEOUT, self.writing).await.is_err() {
            tracing::warn!("timeout writing the last counts of key use; they are lost");
        }
    }
}

async fn write(counts: &UsageCounts, store: &dyn KeyStore) {
    let not_counted = counts.not_counted.swap(0, Ordering::Relaxed);
    if not_counted > 0 {
        tracing::warn!(
            requests = not_counted,
            "too many keys in use; these requests are not counted"
        );
    }
    let batch = counts.take();
    if batch.is_empty() {
        return;
    }
    if let Err(error) = store.add_usage(&batch).await {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let keys = batch.len();
        tracing::warn!(%error, cause, keys, "cannot write counts of key use; they are lost");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> KeyHash {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_le_bytes());
        KeyHash(hash)
    }

    #[test]
    fn requests_are_counted_with_the_time_of_the_last() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let counts = UsageCounts::default();
        for (number, second) in [(1, 10), (2, 20), (1, 30), (1, 25)] {
            counts.record(&key(number), at(second));
        }
        let mut taken = counts.take();
        taken.sort_by_key(|usage| usage.key.0);
        let one = Usage { key: key(1), last_used_at: at(30), requests: 3 };
        let two = Usage { key: key(2), last_used_at: at(20), requests: 1 };
        assert_eq!(taken, [one, two]);
        assert!(counts.take().is_empty());
    }

    #[test]
    fn the_number_of_keys_is_bounded_and_counted_keys_stay_counted() {
        let counts = UsageCounts::default();
        let now = Timestamp::UNIX_EPOCH;
        for number in 0..SHARDS * KEYS_IN_SHARD * 2 {
            counts.record(&key(number), now);
        }
        counts.record(&key(0), now);
        assert!(counts.not_counted.load(Ordering::Relaxed) > 0);
        let taken = counts.take();
        assert!(taken.len() <= SHARDS * KEYS_IN_SHARD);
        assert!(taken.iter().any(|usage| usage.key == key(0) && usage.requests == 2));
    }
}
