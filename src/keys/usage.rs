//! How keys are used: counted in memory, written down together once in a while, never on a
//! request's way. A batch that can't be written is lost, and said to be: written twice it would
//! count twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::store::KeyStore;
use crate::registry::{KeyHash, Timestamp};

/// Keys counted at a time in each shard; the use of further ones is not counted until the next
/// batch has been written.
const KEYS_IN_SHARD: usize = 4_000;

/// Requests of different keys hardly ever wait for each other.
const SHARDS: usize = 16;

/// For the last batch, at the end.
const GOODBYE: Duration = Duration::from_secs(3);

/// What is to be added to what is known of a key's use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The key.
    pub key: KeyHash,
    /// Its last request.
    pub last_used_at: Timestamp,
    /// Requests.
    pub requests: u64,
}

/// The use of keys in this replica since the last batch. Bounded.
#[derive(Debug)]
pub struct UsageCounts {
    shards: [Mutex<HashMap<KeyHash, (Timestamp, u64)>>; SHARDS],
    not_counted: AtomicU64,
}

impl Default for UsageCounts {
    fn default() -> Self {
        Self { shards: Default::default(), not_counted: AtomicU64::new(0) }
    }
}

impl UsageCounts {
    /// A request with this key, at a time by the upstream's clock.
    pub fn note(&self, key: &KeyHash, now: Timestamp) {
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

    /// Everything counted since it was last asked.
    fn take(&self) -> Vec<Usage> {
        let shards = self.shards.iter().flat_map(|shard| std::mem::take(&mut *lock(shard)));
        shards
            .map(|(key, (last_used_at, requests))| Usage { key, last_used_at, requests })
            .collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes counts down, until it is told to end.
#[derive(Debug)]
pub struct UsageWriter {
    stop: CancellationToken,
    writing: JoinHandle<()>,
}

impl UsageWriter {
    /// Writes a batch of `counts` into `store` every so often.
    pub fn start(counts: Arc<UsageCounts>, store: Arc<dyn KeyStore>, every: Duration) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let writing = tokio::spawn(async move {
            // A batch under way is always seen to its end: cut off, it would be lost unsaid.
            while stopped.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
                write(&counts, &*store).await;
            }
            write(&counts, &*store).await;
        });
        Self { stop, writing }
    }

    /// Writes the last batch, if that can be done soon.
    pub async fn finish(self) {
        self.stop.cancel();
        if timeout(GOODBYE, self.writing).await.is_err() {
            tracing::warn!("the last counts of keys' use could not be written in time");
        }
    }
}

async fn write(counts: &UsageCounts, store: &dyn KeyStore) {
    let not_counted = counts.not_counted.swap(0, Ordering::Relaxed);
    if not_counted > 0 {
        tracing::warn!(requests = not_counted, "too many keys in use to count all of it");
    }
    let batch = counts.take();
    if batch.is_empty() {
        return;
    }
    if let Err(error) = store.add_usage(&batch).await {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let keys = batch.len();
        tracing::warn!(%error, cause, keys, "counts of keys' use are lost");
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
    fn requests_are_counted_and_the_last_of_them_is_known() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let counts = UsageCounts::default();
        for (number, second) in [(1, 10), (2, 20), (1, 30), (1, 25)] {
            counts.note(&key(number), at(second));
        }
        let mut taken = counts.take();
        taken.sort_by_key(|usage| usage.key.0);
        let one = Usage { key: key(1), last_used_at: at(30), requests: 3 };
        let two = Usage { key: key(2), last_used_at: at(20), requests: 1 };
        assert_eq!(taken, [one, two]);
        assert!(counts.take().is_empty());
    }

    #[test]
    fn what_is_counted_is_bounded_and_known_keys_go_on_being_counted() {
        let counts = UsageCounts::default();
        let now = Timestamp::UNIX_EPOCH;
        for number in 0..SHARDS * KEYS_IN_SHARD * 2 {
            counts.note(&key(number), now);
        }
        counts.note(&key(0), now);
        assert!(counts.not_counted.load(Ordering::Relaxed) > 0);
        let taken = counts.take();
        assert!(taken.len() <= SHARDS * KEYS_IN_SHARD);
        assert!(taken.iter().any(|usage| usage.key == key(0) && usage.requests == 2));
    }
}
