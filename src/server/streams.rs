//! The HTTP/2 streams of one connection: resets those whose responses the client takes too slowly.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use futures_util::future::{AbortHandle, AbortRegistration};
use tokio_util::task::AbortOnDropHandle;

use super::connection_activity::RequestGuard;
use super::delivery::{Delivery, NEVER};
use crate::sync::lock;

/// Times one response on HTTP/2, from its head until the memory of its last byte is freed. The
/// request counts as in progress on its connection until the timer is dropped: the request's
/// service, the body and each of the body's pieces hold it.
#[derive(Debug)]
pub(super) struct ResponseTimer {
    request: RequestGuard,
    task: AbortHandle,
    /// Begins when the request has been answered.
    delivery: Delivery,
    /// Reads the body of the request, if it has one.
    request_body: OnceLock<AbortOnDropHandle<()>>,
}

impl ResponseTimer {
    /// Keeps the task that reads the request's body until the response has been sent.
    pub(super) fn keep(&self, task: AbortOnDropHandle<()>) {
        // There is one for each request.
        let _ = self.request_body.set(task);
    }

    /// The response's head is complete: from now on the client must take the response.
    pub(super) fn begin_sending(&self) {
        self.delivery.begin(self.request.now());
    }

    /// This many more bytes of the body have been written or discarded.
    pub(super) fn sent(&self, bytes: usize) {
        self.delivery.add(bytes);
    }
}

/// The streams of one connection whose responses are not all written yet.
#[derive(Debug, Default)]
pub(super) struct Streams {
    timers: Mutex<Vec<Weak<ResponseTimer>>>,
    /// For the task of the stream that was opened last, until the executor takes it.
    next_task: Mutex<Option<AbortRegistration>>,
}

impl Streams {
    /// A request has been received. [`Self::take_next_task`] must be called next, for its task.
    pub(super) fn open(&self, request: RequestGuard) -> Arc<ResponseTimer> {
        let (task, registration) = AbortHandle::new_pair();
        *lock(&self.next_task) = Some(registration);
        let timer = Arc::new(ResponseTimer {
            request,
            task,
            delivery: Delivery::new(),
            request_body: OnceLock::new(),
        });
        let mut timers = lock(&self.timers);
        if timers.len() == timers.capacity() {
            timers.retain(|timer| timer.strong_count() > 0);
        }
        timers.push(Arc::downgrade(&timer));
        timer
    }

    /// Makes the task of the stream that was opened last abortable. `None` for every other task.
    pub(super) fn take_next_task(&self) -> Option<AbortRegistration> {
        lock(&self.next_task).take()
    }

    /// Resets the streams whose responses are too slow at `now`. Returns the next deadline, in
    /// milliseconds; `None` if the connection must end because a response is still in memory
    /// `grace_ms` after its stream was reset. This happens if the library has taken all of a body and the
    /// client has closed the stream's window again, or takes nothing of the whole connection.
    pub(super) fn reset_overdue(&self, now: u64, timeout_ms: u64, grace_ms: u64) -> Option<u64> {
        let mut next = NEVER;
        for timer in lock(&self.timers).iter().filter_map(Weak::upgrade) {
            let deadline = timer.delivery.deadline(timeout_ms);
            if deadline > now {
                next = next.min(deadline);
                continue;
            }
            let last = deadline.saturating_add(grace_ms);
            if last <= now {
                return None;
            }
            timer.task.abort();
            next = next.min(last);
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::watchdog::tests::{IDLE, RESPONSE, lives_for, watchdog};

    #[tokio::test(start_paused = true)]
    async fn an_unread_stream_is_aborted_and_then_its_connection_ends() {
        let watchdog = watchdog();
        let timer = watchdog.open_stream();
        timer.begin_sending();
        assert_eq!(lives_for(&watchdog).await, 2 * RESPONSE, "its memory was not freed");
        assert!(timer.task.is_aborted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_outlives_a_reset_stream_whose_memory_is_freed() {
        let watchdog = watchdog();
        let timer = watchdog.open_stream();
        timer.begin_sending();
        let aborted = tokio::spawn(async move {
            while !timer.task.is_aborted() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let lived = lives_for(&watchdog).await;
        assert!(aborted.is_finished());
        assert!(lived >= RESPONSE + IDLE, "idle since then: {lived:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_16_kib_extend_the_deadline_by_a_second() {
        let watchdog = watchdog();
        let timer = watchdog.open_stream();
        timer.begin_sending();
        timer.sent(160 * 1024);
        let waited = tokio::time::timeout(RESPONSE + Duration::from_secs(9), watchdog.expired());
        assert!(waited.await.is_err());
        assert!(!timer.task.is_aborted());
        let waited = tokio::time::timeout(Duration::from_secs(2), watchdog.expired());
        assert!(waited.await.is_err());
        assert!(timer.task.is_aborted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_being_answered_has_no_deadline() {
        let watchdog = watchdog();
        let timer = watchdog.open_stream();
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, watchdog.expired()).await.is_err());
        drop(timer);
        assert_eq!(lives_for(&watchdog).await, IDLE);
    }

    #[tokio::test]
    async fn finished_streams_take_no_memory() {
        let watchdog = watchdog();
        for _ in 0..10_000 {
            drop(watchdog.open_stream());
        }
        assert!(lock(&watchdog.streams.timers).capacity() < 16);
    }
}
