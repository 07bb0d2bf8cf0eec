//! Batching without a timer: requests that arrive while batches are under way share the next one.
//!
//! A request that finds a worker free is executed at once, alone. While all workers are busy,
//! requests wait; equal ones share an entry, and the next free worker takes the oldest entries.
//! Workers are tasks of their own and end when nothing waits, so a caller that stops waiting delays
//! nobody. If it stops before its batch begins, the batch leaves it out. When a batch panics, its
//! callers get [`BatchError::TaskPanicked`], and its worker goes on with the next one.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use thiserror::Error;
use tokio::sync::oneshot;

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
}

/// The bounds of a [`Batcher`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchLimits {
    /// Entries in one batch, at least 1.
    pub(crate) max_batch: usize,
    /// Batches under way at once, at least 1.
    pub(crate) max_workers: usize,
    /// Callers that wait at once for their batch to begin.
    pub(crate) max_waiting: usize,
}

/// Why a request has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum BatchError {
    /// [`BatchLimits::max_waiting`] callers wait already.
    #[error("too many requests wait for a batch")]
    QueueFull,
    /// The batch panicked, or its runtime is shutting down.
    #[error(transparent)]
    TaskPanicked(#[from] TaskPanicked),
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
        let (requests, callers) = (VecDeque::new(), HashMap::new());
        let queue = BatchQueue { requests, callers, caller_count: 0, workers: 0 };
        Self(Arc::new(BatcherState { name, executor, limits, queue: Mutex::new(queue) }))
    }

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
        Ok(receiver.await.map_err(|_| TaskPanicked)?)
    }

    fn enqueue(&self, request: Request) -> Result<oneshot::Receiver<Reply>, BatchError> {
        let (sender, receiver) = oneshot::channel();
        let BatchLimits { max_workers, max_waiting, .. } = self.0.limits;
        let mut queue = lock(&self.0.queue);
        if queue.caller_count >= max_waiting {
            return Err(BatchError::QueueFull);
        }
        queue.push(request, sender);
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
        if queue.requests.is_empty() {
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
            queue.requests.clear();
            queue.callers.clear();
            queue.caller_count = 0;
        }
    }
}

/// One request of a batch, with the callers that share it. Callers of an entry that is dropped
/// without a reply get [`BatchError::TaskPanicked`].
#[derive(Debug)]
pub(crate) struct BatchEntry<Request, Reply> {
    pub(crate) request: Request,
    callers: Vec<oneshot::Sender<Reply>>,
}

impl<Request, Reply> BatchEntry<Request, Reply> {
    /// How many callers share the request, at least 1.
    pub(crate) fn callers(&self) -> usize {
        self.callers.len()
    }

    /// Gives all callers the same reply.
    pub(crate) fn reply(self, reply: Reply)
    where
        Reply: Clone,
    {
        self.reply_each(|_| reply.clone());
    }

    /// Gives each caller a reply of its own, made from its index in the order of arrival.
    pub(crate) fn reply_each(self, reply: impl Fn(usize) -> Reply) {
        for (index, caller) in self.callers.into_iter().enumerate() {
            // Fails if the caller has stopped waiting, which is not an error.
            let _ = caller.send(reply(index));
        }
    }
}

/// Requests whose batch has not begun.
pub(crate) struct WaitingRequests<'a, Request, Reply>(&'a Mutex<BatchQueue<Request, Reply>>);

impl<Request: Clone + Eq + Hash, Reply: Clone> WaitingRequests<'_, Request, Reply> {
    /// Gives `reply` to the requests that `is_affected` selects, instead of executing them.
    pub(crate) fn reply_where(
        &self,
        is_affected: impl Fn(&Request) -> bool,
        reply: impl Fn(&Request) -> Reply,
    ) {
        let affected = lock(self.0).take_where(is_affected);
        for entry in affected {
            let reply = reply(&entry.request);
            entry.reply(reply);
        }
    }
}

#[derive(Debug)]
struct BatchQueue<Request, Reply> {
    /// The waiting requests, oldest first.
    requests: VecDeque<Request>,
    /// The callers of each of them.
    callers: HashMap<Request, Vec<oneshot::Sender<Reply>>>,
    /// All callers of all of them.
    caller_count: usize,
    workers: usize,
}

impl<Request: Clone + Eq + Hash, Reply> BatchQueue<Request, Reply> {
    fn push(&mut self, request: Request, caller: oneshot::Sender<Reply>) {
        self.caller_count += 1;
        match self.callers.entry(request) {
            Entry::Occupied(mut callers) => callers.get_mut().push(caller),
            Entry::Vacant(vacant) => {
                self.requests.push_back(vacant.key().clone());
                vacant.insert(vec![caller]);
            }
        }
    }

    /// Up to `max` entries, without callers that have left.
    fn pop(&mut self, max: usize) -> Vec<BatchEntry<Request, Reply>> {
        let mut batch = Vec::with_capacity(max.min(self.requests.len()));
        while batch.len() < max
            && let Some(request) = self.requests.pop_front()
        {
            let mut callers = self.callers.remove(&request).unwrap_or_default();
            self.caller_count -= callers.len();
            callers.retain(|caller| !caller.is_closed());
            if !callers.is_empty() {
                batch.push(BatchEntry { request, callers });
            }
        }
        batch
    }

    fn take_where(
        &mut self,
        is_affected: impl Fn(&Request) -> bool,
    ) -> Vec<BatchEntry<Request, Reply>> {
        self.requests.retain(|request| !is_affected(request));
        let taken = self.callers.extract_if(|request, _| is_affected(request));
        let taken: Vec<_> =
            taken.map(|(request, callers)| BatchEntry { request, callers }).collect();
        self.caller_count -= taken.iter().map(BatchEntry::callers).sum::<usize>();
        taken
    }
}

#[cfg(test)]
#[path = "batcher_tests.rs"]
mod tests;
