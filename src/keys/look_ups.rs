//! Look-ups of keys, several in one statement.
//!
//! A look-up that finds a lane free is sent at once, alone. While all lanes are busy look-ups gather,
//! and the next free lane takes all of them: a replica with a hundred thousand busy keys, which are
//! looked up again every minute, asks the database some dozens of times a second and not thousands.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::registry::{ApiKeyRecord, KeyHash};
use crate::upstream::{Read, UpstreamError, Watched};

/// Statements under way at once.
const LANES: usize = 4;

/// Keys in one statement.
const MOST: usize = 64;

type Waiter = (KeyHash, oneshot::Sender<Answer>);
type Answer = Result<Read<Option<ApiKeyRecord>>, Arc<UpstreamError>>;

/// Looks keys up. Cheap to clone.
#[derive(Clone)]
pub(super) struct LookUps(Arc<Inner>);

struct Inner {
    upstream: Arc<Watched>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiter>,
    lanes: usize,
}

impl LookUps {
    pub(super) fn new(upstream: Arc<Watched>) -> Self {
        Self(Arc::new(Inner { upstream, queue: Mutex::default() }))
    }

    /// The record of one key.
    ///
    /// # Errors
    /// Those of the statement that it was in.
    pub(super) async fn record(&self, hash: KeyHash) -> Answer {
        let (answer, receiver) = oneshot::channel();
        self.enqueue(hash, answer);
        // A lane keeps its promise, or crashed.
        receiver.await.unwrap_or_else(|_| Err(Arc::new(UpstreamError::Failed("a crash".into()))))
    }

    fn enqueue(&self, hash: KeyHash, answer: oneshot::Sender<Answer>) {
        let mut queue = self.0.queue();
        queue.waiting.push_back((hash, answer));
        if queue.lanes == LANES {
            return;
        }
        queue.lanes += 1;
        drop(queue);
        // Without the lock: a runtime that is ending drops the lane at once, which takes it.
        let lane = Lane { inner: Arc::clone(&self.0), signed_off: false };
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
struct Lane {
    inner: Arc<Inner>,
    signed_off: bool,
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.signed_off {
            return;
        }
        let mut queue = self.inner.queue();
        queue.lanes -= 1;
        // With no other lane nobody would come to those who wait.
        if queue.lanes == 0 {
            queue.waiting.clear();
        }
    }
}

impl Lane {
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
            queue.lanes -= 1;
            self.signed_off = true;
            return None;
        }
        let most = queue.waiting.len().min(MOST);
        Some(queue.waiting.drain(..most).collect())
    }

    /// One row that the statement fails on is not everybody's trouble.
    async fn one_by_one(&self, hashes: Vec<KeyHash>, answers: Vec<oneshot::Sender<Answer>>) {
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
fn answer(to: oneshot::Sender<Answer>, read: Answer) {
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
            LookUps::new(Watched::new(Arc::new(upstream))).record(KeyHash([1; 32])).await
        });
        assert!(matches!(found, Some(Err(_))), "{found:?}");
    }
}
