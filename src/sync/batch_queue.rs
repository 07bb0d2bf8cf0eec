//! The queue of a `Batcher`: waiting requests with their callers, oldest first.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Mutex;

use thiserror::Error;
use tokio::sync::oneshot;

use super::{TaskPanicked, lock};

/// Why a request has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum BatchError {
    /// [`BatchLimits::max_waiting`](super::BatchLimits::max_waiting) is exceeded.
    #[error("too many requests wait for a batch")]
    QueueFull,
    /// The batch panicked, or its runtime is shutting down.
    #[error(transparent)]
    TaskPanicked(#[from] TaskPanicked),
}

/// One request of a batch, with the callers that share it. Callers of an entry that is dropped
/// without a reply get [`BatchError::TaskPanicked`].
#[derive(Debug)]
pub(crate) struct BatchEntry<Request, Reply> {
    pub(crate) request: Request,
    callers: Vec<ReplySender<Reply>>,
}

pub(super) type ReplySender<Reply> = oneshot::Sender<Result<Reply, BatchError>>;
pub(super) type ReplyReceiver<Reply> = oneshot::Receiver<Result<Reply, BatchError>>;

impl<Request, Reply> BatchEntry<Request, Reply> {
    /// How many callers share the request, at least 1.
    pub(crate) fn callers(&self) -> usize {
        self.callers.len()
    }

    /// Gives all callers the same reply.
    pub(crate) fn reply(mut self, reply: Reply)
    where
        Reply: Clone,
    {
        let last = self.callers.pop();
        self.reply_each(|_| reply.clone());
        last.map(|caller| caller.send(Ok(reply)));
    }

    /// Gives each caller a reply of its own, made from its index in the order of arrival.
    pub(crate) fn reply_each(self, reply: impl Fn(usize) -> Reply) {
        for (index, caller) in self.callers.into_iter().enumerate() {
            // Fails if the caller has stopped waiting, which is not an error.
            let _ = caller.send(Ok(reply(index)));
        }
    }
}

/// Requests whose batch has not begun.
pub(crate) struct WaitingRequests<'a, Request, Reply>(
    pub(super) &'a Mutex<BatchQueue<Request, Reply>>,
);

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

/// The queue of a [`Batcher`](super::Batcher).
#[derive(Debug)]
pub(super) struct BatchQueue<Request, Reply> {
    /// The waiting requests, oldest first.
    requests: VecDeque<Request>,
    /// The callers of each of them.
    callers: HashMap<Request, WaitingCallers<Reply>>,
    /// Of the waiting requests; each caller counts.
    pub(super) weight: usize,
    pub(super) workers: usize,
}

/// The callers of one request, each of this weight.
#[derive(Debug)]
struct WaitingCallers<Reply> {
    weight: usize,
    callers: Vec<ReplySender<Reply>>,
}

impl<Reply> WaitingCallers<Reply> {
    fn weight(&self) -> usize {
        self.weight * self.callers.len()
    }
}

impl<Request, Reply> Default for BatchQueue<Request, Reply> {
    fn default() -> Self {
        Self { requests: VecDeque::new(), callers: HashMap::new(), weight: 0, workers: 0 }
    }
}

impl<Request, Reply> BatchQueue<Request, Reply> {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Drops all callers.
    pub(super) fn clear(&mut self) {
        *self = Self { workers: self.workers, ..Self::default() };
    }
}

impl<Request: Clone + Eq + Hash, Reply> BatchQueue<Request, Reply> {
    pub(super) fn push(&mut self, request: Request, weight: usize, caller: ReplySender<Reply>) {
        self.weight += weight;
        match self.callers.entry(request) {
            Entry::Occupied(mut waiting) => waiting.get_mut().callers.push(caller),
            Entry::Vacant(vacant) => {
                self.requests.push_back(vacant.key().clone());
                vacant.insert(WaitingCallers { weight, callers: vec![caller] });
            }
        }
    }

    /// The oldest entries, up to this weight and at least one, without callers that have left.
    pub(super) fn pop(&mut self, max_weight: usize) -> Vec<BatchEntry<Request, Reply>> {
        let (mut batch, mut batch_weight) = (Vec::new(), 0);
        while let Some(request) = self.requests.front()
            && let weight = self.callers.get(request).map_or(0, |waiting| waiting.weight)
            && (batch.is_empty() || batch_weight + weight <= max_weight)
            && let Some(BatchEntry { request, mut callers }) = self.pop_oldest()
        {
            callers.retain(|caller| !caller.is_closed());
            if !callers.is_empty() {
                batch_weight += weight;
                batch.push(BatchEntry { request, callers });
            }
        }
        batch
    }

    fn pop_oldest(&mut self) -> Option<BatchEntry<Request, Reply>> {
        let request = self.requests.pop_front()?;
        let waiting = self.callers.remove(&request)?;
        self.weight -= waiting.weight();
        Some(BatchEntry { request, callers: waiting.callers })
    }

    /// Gives up the oldest request.
    pub(super) fn drop_oldest(&mut self) {
        let oldest = self.pop_oldest();
        for caller in oldest.into_iter().flat_map(|entry| entry.callers) {
            // Fails if the caller has stopped waiting, which is not an error.
            let _ = caller.send(Err(BatchError::QueueFull));
        }
    }

    fn take_where(
        &mut self,
        is_affected: impl Fn(&Request) -> bool,
    ) -> Vec<BatchEntry<Request, Reply>> {
        self.requests.retain(|request| !is_affected(request));
        let taken: Vec<_> = self.callers.extract_if(|request, _| is_affected(request)).collect();
        self.weight -= taken.iter().map(|(_, waiting)| waiting.weight()).sum::<usize>();
        let entry = |(request, waiting): (_, WaitingCallers<_>)| BatchEntry {
            request,
            callers: waiting.callers,
        };
        taken.into_iter().map(entry).collect()
    }
}
