//! Batching without a timer: requests that arrive while batches are under way share the next one.
//!
//! A request that finds a worker free is executed at once, alone. While all workers are busy,
//! requests wait; equal ones share an entry, and the next free worker takes the oldest entries.
//! Workers are tasks of their own and end when nothing waits, so a caller that stops waiting delays
//! nobody. If it stops before its batch begins, the batch leaves it out. When a batch panics, its
//! callers get [`BatchError::TaskPanicked`], and its worker goes on with the next one.

use std::hash::Hash;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::batch_queue::{BatchEntry, BatchError, BatchQueue, ReplyReceiver, WaitingRequests};
use super::supervised::{contain, register};
use super::{TaskPanicked, lock};

/// Executes the batches of a [`Batcher`].
pub(crate) trait BatchExecutor<Request, Reply>: Send + Sync + 'static {
    /// Executes a batch of at least one entry and replies to each entry. If the outcome also
    /// concerns requests that still wait, it can reply to them through `waiting`.
    fn execute(
        &self,
        batch: Vec<BatchEntry<Request, Reply>>,
        waiting: WaitingRequests<'_, Request, Reply>,
    ) -> impl Future<Output = ()> + Send;

    /// What a request counts for in [`BatchLimits`].
    fn weight(&self, _request: &Request) -> usize {
        1
    }
}

/// The bounds of a [`Batcher`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchLimits {
    /// The weight of the requests in one batch. A heavier request is a batch of its own.
    pub(crate) max_batch: usize,
    /// Batches under way at once, at least 1.
    pub(crate) max_workers: usize,
    /// The weight of the requests of all callers that wait for their batch to begin.
    pub(crate) max_waiting: usize,
    /// Which request is dropped beyond that.
    pub(crate) when_full: WhenFull,
}

/// Who gets [`BatchError::QueueFull`] from a full queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// The new caller.
    RejectNew,
    /// The callers that have waited longest.
    DropOldest,
}

/// Executes requests in batches. Equal requests that wait at the same time are executed once.
/// Cheap to clone.
#[derive(Debug)]
pub(crate) struct Batcher<Request, Reply, E>(Arc<BatcherState<Request, Reply, E>>);

impl<Request, Reply, E> Clone for Batcher<Request, Reply, E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct BatcherState<Request, Reply, E> {
    name: &'static str,
    executor: E,
    limits: BatchLimits,
    queue: Mutex<BatchQueue<Request, Reply>>,
}

impl<Request, Reply, E> Batcher<Request, Reply, E>
where
    Request: Clone + Eq + Hash + Send + 'static,
    Reply: Send + 'static,
    E: BatchExecutor<Request, Reply>,
{
    /// Panics of batches are counted under `name`.
    pub(crate) fn new(name: &'static str, executor: E, limits: BatchLimits) -> Self {
        register(name);
        Self(Arc::new(BatcherState { name, executor, limits, queue: Mutex::default() }))
    }

    #[cfg(test)]
    pub(crate) fn executor(&self) -> &E {
        &self.0.executor
    }

    /// Executes one request, in a batch with others that wait at the same time. Must be called on
    /// a runtime.
    ///
    /// # Errors
    /// [`BatchError`].
    pub(crate) async fn run(&self, request: Request) -> Result<Reply, BatchError> {
        let receiver = self.enqueue(request)?;
        // The sender is dropped unused only if the batch panicked or the worker was dropped.
        receiver.await.unwrap_or(Err(TaskPanicked.into()))
    }

    fn enqueue(&self, request: Request) -> Result<ReplyReceiver<Reply>, BatchError> {
        let (sender, receiver) = oneshot::channel();
        let BatchLimits { max_workers, max_waiting, when_full, .. } = self.0.limits;
        let weight = self.0.executor.weight(&request);
        let mut queue = lock(&self.0.queue);
        // A heavier request than that waits alone.
        let room = max_waiting.saturating_sub(weight);
        while queue.weight > room {
            match when_full {
                WhenFull::RejectNew => return Err(BatchError::QueueFull),
                WhenFull::DropOldest => queue.drop_oldest(),
            }
        }
        queue.push(request, weight, sender);
        if queue.workers < max_workers {
            queue.workers += 1;
            drop(queue);
            // Without the lock: a runtime that is shutting down drops the worker at once, and the
            // worker's drop takes the lock.
            let worker = BatchWorker { state: Arc::clone(&self.0), finished: false };
            tokio::spawn(worker.run());
        }
        Ok(receiver)
    }
}

/// Executes batches until nothing waits.
struct BatchWorker<Request, Reply, E> {
    state: Arc<BatcherState<Request, Reply, E>>,
    finished: bool,
}

impl<Request, Reply, E> BatchWorker<Request, Reply, E>
where
    Request: Clone + Eq + Hash,
    E: BatchExecutor<Request, Reply>,
{
    async fn run(mut self) {
        while let Some(batch) = self.next_batch() {
            if !batch.is_empty() {
                let waiting = WaitingRequests(&self.state.queue);
                contain(self.state.name, self.state.executor.execute(batch, waiting)).await;
            }
        }
    }

    /// The oldest entries. When nothing waits the worker finishes under the same lock, so that the
    /// next request starts another one.
    fn next_batch(&mut self) -> Option<Vec<BatchEntry<Request, Reply>>> {
        let mut queue = lock(&self.state.queue);
        if queue.is_empty() {
            queue.workers -= 1;
            self.finished = true;
            return None;
        }
        Some(queue.pop(self.state.limits.max_batch))
    }
}

impl<Request, Reply, E> Drop for BatchWorker<Request, Reply, E> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut queue = lock(&self.state.queue);
        queue.workers -= 1;
        // The runtime is shutting down: no worker is left for the requests that wait.
        if queue.workers == 0 {
            queue.clear();
        }
    }
}

#[cfg(test)]
#[path = "batcher_tests.rs"]
mod tests;
