//! Look-ups of keys, several in one statement.
//!
//! A look-up that finds a lane free is sent at once, alone. While all lanes are busy look-ups gather,
//! and the next free lane takes all of them: a replica with a hundred thousand busy keys, which are
//! looked up again every minute, asks the database some dozens of times a second and not thousands.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::registry::{ApiKeyRecord, KeyHash};
use crate::upstream::{Read, UpstreamClient, UpstreamError};

/// Statements under way at once.
const WORKERS: usize = 4;

/// Keys in one statement.
const MAX_BATCH: usize = 64;

type Waiter = (KeyHash, oneshot::Sender<LoadResult>);
type LoadResult = Result<Read<Option<ApiKeyRecord>>, Arc<UpstreamError>>;

/// Looks keys up. Cheap to clone.
#[derive(Clone)]
pub(super) struct RecordLoader(Arc<Inner>);

struct Inner {
    upstream: Arc<UpstreamClient>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiter>,
    workers: usize,
}

impl RecordLoader {
    pub(super) fn new(upstream: Arc<UpstreamClient>) -> Self {
        Self(Arc::new(Inner { upstream, queue: Mutex::default() }))
    }

    /// The record of one key.
    ///
    /// # Errors
    /// Those of the statement that it was in.
    pub(super) async fn record(&self, hash: KeyHash) -> LoadResult {
        let (answer, receiver) = oneshot::channel();
        self.enqueue(hash, answer);
        // A lane keeps its promise, or crashed.
        receiver.await.unwrap_or_else(|_| Err(Arc::new(UpstreamError::Failed("a crash".into()))))
    }

    fn enqueue(&self, hash: KeyHash, answer: oneshot::Sender<LoadResult>) {
        let mut queue = self.0.queue();
        queue.waiting.push_back((hash, answer));
        if queue.workers == WORKERS {
            return;
        }
        queue.workers += 1;
        drop(queue);
        // Without the lock: a runtime that is ending drops the lane at once, which takes it.
        let lane = Worker { inner: Arc::clone(&self.0), finished: false };
        tokio::spawn(lane.run());
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// They have waited as long as a statement may take.
    fn give_up_waiting(&self, error: &Arc<UpstreamError>) {
        let waiting = std::mem::take(&mut self.queue().waiting);
        waiting.into_iter().for_each(|(_, to)| answer(to, Err(Arc::clone(error))));
    }
}

/// Sends statements until nobody waits. Should it crash, those whom it leaves alone
/// hear of it.
struct Worker {
    inner: Arc<Inner>,
    finished: bool,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut queue = self.inner.queue();
        queue.workers -= 1;
        // With no other lane nobody would come to those who wait.
        if queue.workers == 0 {
            queue.waiting.clear();
        }
    }
}

impl Worker {
    async fn run(mut self) {
        while let Some(waiting) = self.next() {
            let (hashes, answers): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
            match self.inner.upstream.api_keys(&hashes).await {
                Ok(Read { value, seen }) => {
                    let reads = value.into_iter().map(|value| Read { value, seen: seen.clone() });
                    answers.into_iter().zip(reads).for_each(|(to, read)| answer(to, Ok(read)));
                }
                Err(UpstreamError::Failed(_)) if hashes.len() > 1 => {
                    self.one_by_one(hashes, answers).await;
                }
                Err(error) => {
                    let late = matches!(error, UpstreamError::Timeout);
                    let error = Arc::new(error);
                    answers.into_iter().for_each(|to| answer(to, Err(Arc::clone(&error))));
                    if late {
                        self.inner.give_up_waiting(&error);
                    }
                }
            }
        }
    }

    /// With nobody left the lane signs off under the same lock, so that whoever comes next opens
    /// another.
    fn next(&mut self) -> Option<Vec<Waiter>> {
        let mut queue = self.inner.queue();
        if queue.waiting.is_empty() {
            queue.workers -= 1;
            self.finished = true;
            return None;
        }
        let most = queue.waiting.len().min(MAX_BATCH);
        Some(queue.waiting.drain(..most).collect())
    }

    /// One row that the statement fails on is not everybody's trouble.
    async fn one_by_one(&self, hashes: Vec<KeyHash>, answers: Vec<oneshot::Sender<LoadResult>>) {
        let mut lost = None;
        for (hash, to) in hashes.iter().zip(answers) {
            let read = match &lost {
                Some(error) => Err(Arc::clone(error)),
                None => self.one(hash).await.map_err(Arc::new),
            };
            if let Err(error) = &read
                && !matches!(**error, UpstreamError::Failed(_))
            {
                lost = Some(Arc::clone(error));
            }
            answer(to, read);
        }
    }

    async fn one(&self, hash: &KeyHash) -> Result<Read<Option<ApiKeyRecord>>, UpstreamError> {
        let Read { mut value, seen } =
            self.inner.upstream.api_keys(std::slice::from_ref(hash)).await?;
        Ok(Read { value: value.pop().flatten(), seen })
    }
}

/// Nobody minds when the caller has left.
fn answer(to: oneshot::Sender<LoadResult>, read: LoadResult) {
    let _ = to.send(read);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Timestamp;
    use crate::upstream::{Catalogue, Embedded};

    #[test]
    fn a_process_that_ends_hangs_nobody() {
        let found = crate::sync::ending_runtime::on_an_ending_runtime(async {
            let empty = Catalogue { genes: Vec::new() };
            let upstream =
                Embedded::from_catalogue(&empty, Timestamp::now(), vec![], String::new());
            RecordLoader::new(UpstreamClient::new(Arc::new(upstream)))
                .record(KeyHash([1; 32]))
                .await
        });
        assert!(matches!(found, Some(Err(_))), "{found:?}");
    }
}
