//! Loads key records from the upstream, several in one statement.
//!
//! If a worker is free, a load is sent at once, alone. Otherwise it shares the next statement with
//! the other loads that wait. A replica that reloads the records of 100,000 busy keys every minute
//! so sends some dozens of statements a second instead of thousands.

use std::sync::Arc;

use crate::registry::{ApiKeyRecord, KeyHash};
use crate::sync::{BatchEntry, BatchExecutor, BatchLimits, Batcher, WaitingRequests, WhenFull};
use crate::upstream::{Read, UpstreamClient, UpstreamError};

/// Up to four concurrent statements of 64 keys. The callers bound how many loads wait.
const LIMITS: BatchLimits = BatchLimits {
    max_batch: 64,
    max_workers: 4,
    max_waiting: usize::MAX,
    when_full: WhenFull::RejectNew,
};

type LoadResult = Result<Read<Option<ApiKeyRecord>>, Arc<UpstreamError>>;

/// Loads records. Cheap to clone.
#[derive(Clone)]
pub(super) struct RecordLoader(Batcher<KeyHash, LoadResult, RecordStatements>);

struct RecordStatements(Arc<UpstreamClient>);

impl RecordLoader {
    pub(super) fn new(upstream: Arc<UpstreamClient>) -> Self {
        Self(Batcher::new("key_record_batches", RecordStatements(upstream), LIMITS))
    }

    /// The record of one key; `None` if the key is unknown.
    ///
    /// # Errors
    /// The error of the statement that it was in.
    pub(super) async fn record(&self, hash: KeyHash) -> LoadResult {
        let loaded = self.0.run(hash).await;
        loaded.unwrap_or_else(|error| Err(Arc::new(UpstreamError::Failed(error.into()))))
    }
}

impl BatchExecutor<KeyHash, LoadResult> for RecordStatements {
    async fn execute(
        &self,
        batch: Vec<BatchEntry<KeyHash, LoadResult>>,
        waiting: WaitingRequests<'_, KeyHash, LoadResult>,
    ) {
        let hashes: Vec<_> = batch.iter().map(|entry| entry.request).collect();
        match self.0.api_keys(&hashes).await {
            Ok(Read { value, seen }) => {
                for (entry, value) in batch.into_iter().zip(value) {
                    entry.reply(Ok(Read { value, seen: seen.clone() }));
                }
            }
            Err(UpstreamError::Failed(_)) if batch.len() > 1 => self.load_one_by_one(batch).await,
            Err(error) => {
                let is_timeout = matches!(error, UpstreamError::Timeout);
                let error = Arc::new(error);
                batch.into_iter().for_each(|entry| entry.reply(Err(Arc::clone(&error))));
                if is_timeout {
                    // They have waited as long as a statement may take.
                    waiting.reply_where(|_| true, |_| Err(Arc::clone(&error)));
                }
            }
        }
    }
}

impl RecordStatements {
    /// Loads each record in a statement of its own, so that a row that a statement fails on does
    /// not fail the other keys. Stops at the first error that concerns the upstream as a whole.
    async fn load_one_by_one(&self, batch: Vec<BatchEntry<KeyHash, LoadResult>>) {
        let mut unavailable = None;
        for entry in batch {
            let loaded = match &unavailable {
                Some(error) => Err(Arc::clone(error)),
                None => self.load_one(&entry.request).await.map_err(Arc::new),
            };
            if let Err(error) = &loaded
                && !matches!(**error, UpstreamError::Failed(_))
            {
                unavailable = Some(Arc::clone(error));
            }
            entry.reply(loaded);
        }
    }

    async fn load_one(&self, hash: &KeyHash) -> Result<Read<Option<ApiKeyRecord>>, UpstreamError> {
        let found = self.0.api_keys(std::slice::from_ref(hash)).await?;
        Ok(found.map(|mut records| records.pop().flatten()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Catalogue, Timestamp};
    use crate::upstream::Embedded;

    #[test]
    fn nobody_waits_forever_on_a_runtime_that_shuts_down() {
        let loaded = crate::sync::ending_runtime::on_an_ending_runtime(async {
            let empty = Catalogue { genes: Vec::new() };
            let upstream =
                Embedded::from_catalogue(&empty, Timestamp::now(), vec![], String::new());
            RecordLoader::new(UpstreamClient::new(Arc::new(upstream)))
                .record(KeyHash([1; 32]))
                .await
        });
        assert!(matches!(loaded, Some(Err(_))), "{loaded:?}");
    }
}
