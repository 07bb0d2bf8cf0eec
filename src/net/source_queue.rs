//! Lets a number of requests run at a time. Those of sources that fail too often share a few of the
//! places, and wait for these in a queue of their own: the others wait for few of them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{FailureLimiter, RequestSource};

/// The queues, with the failures of sources that decide which of them a request waits in.
#[derive(Debug)]
pub(crate) struct SourceQueue {
    pub(crate) failures: FailureLimiter,
    running: Arc<Semaphore>,
    running_last: Arc<Semaphore>,
}

/// What a request occupies until it is dropped: a place among all requests and, if its source is over
/// its budget, among those that are served last.
#[derive(Debug)]
pub(crate) struct QueueTurn {
    _any: Option<OwnedSemaphorePermit>,
    last: Option<OwnedSemaphorePermit>,
}

impl SourceQueue {
    /// Lets `concurrent` requests run at a time, and among them `concurrent_last` of sources that are
    /// over their budget of failures.
    pub(crate) fn new(failures: FailureLimiter, concurrent: usize, concurrent_last: usize) -> Self {
        let [running, running_last] =
            [concurrent, concurrent_last].map(|places| Arc::new(Semaphore::new(places)));
        Self { failures, running, running_last }
    }

    /// Waits for the turn of a request.
    pub(crate) async fn turn(&self, source: RequestSource) -> QueueTurn {
        if self.failures.is_within_budget(source) {
            let any = permit_of(&self.running).await;
            // Requests that failed meanwhile may have used up the budget.
            if self.failures.is_within_budget(source) {
                return QueueTurn { _any: any, last: None };
            }
        }
        let last = permit_of(&self.running_last).await;
        QueueTurn { _any: permit_of(&self.running).await, last }
    }
}

impl QueueTurn {
    /// Whether the source is over its budget.
    pub(crate) const fn is_last(&self) -> bool {
        self.last.is_some()
    }
}

async fn permit_of(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // Fails only for a closed semaphore, which none is.
    Arc::clone(semaphore).acquire_owned().await.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::task::JoinSet;

    use super::*;
    use crate::sync::lock;

    fn source(number: u8) -> RequestSource {
        RequestSource::of([10, 0, 0, number].into())
    }

    #[tokio::test]
    async fn requests_of_a_source_that_fails_too_often_wait_behind_others() {
        for is_over_budget_before in [true, false] {
            let queue = SourceQueue::new(FailureLimiter::new("tests", 1, 1), 1, 1);
            let queue = Arc::new(queue);
            let (running, served) = (queue.turn(source(9)).await, Arc::new(Mutex::default()));
            if is_over_budget_before {
                queue.failures.count(source(1));
            }
            let mut requests = JoinSet::new();
            // They begin to wait in this order.
            for number in [1; 100].into_iter().chain([2]) {
                let (queue, served) = (Arc::clone(&queue), Arc::clone(&served));
                requests.spawn(async move {
                    let _turn = queue.turn(source(number)).await;
                    lock::<Vec<u8>>(&served).push(number);
                    queue.failures.count(source(number));
                });
                tokio::task::yield_now().await;
            }
            drop(running);
            requests.join_all().await;
            let served = lock(&served);
            let before = served.iter().position(|number| *number == 2);
            assert_eq!((before, served.len()), (Some(1), 101), "{is_over_budget_before}");
        }
    }
}
