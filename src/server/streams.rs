//! The HTTP/2 streams of one connection: their tasks, and how fast each response must be taken.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::{AbortHandle, AbortRegistration, Abortable};
use hyper::rt::Executor;

use super::watchdog::{NONE, Watchdog, slowest};

/// Times one response on HTTP/2, from its head to the memory of its last byte. It counts as in
/// progress on its connection until it is dropped: the request's service, the body and each of the
/// body's pieces hold it.
#[derive(Debug)]
pub(super) struct ResponseTimer {
    watchdog: Arc<Watchdog>,
    task: AbortHandle,
    /// Milliseconds on the watchdog's clock; [`NONE`] while the request is being answered.
    sending_since: AtomicU64,
    /// Bytes of the body that have been written.
    sent: AtomicU64,
}

impl ResponseTimer {
    /// The response's head is there: from now on the client must take it.
    pub(super) fn begin_sending(&self) {
        self.sending_since.store(self.watchdog.now(), Ordering::Release);
    }

    /// So many bytes more of the body have been written, or given up.
    pub(super) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    /// When the response is too slow, on the watchdog's clock; `None` while there is none yet.
    fn deadline(&self, timeout_ms: u64) -> Option<u64> {
        let since = self.sending_since.load(Ordering::Acquire);
        (since != NONE).then(|| slowest(since, self.sent.load(Ordering::Acquire), timeout_ms))
    }
}

impl Drop for ResponseTimer {
    fn drop(&mut self) {
        self.watchdog.end_request();
    }
}

/// The streams of one connection whose responses are not all written yet.
#[derive(Debug, Default)]
pub(super) struct Streams {
    timers: Mutex<Vec<Weak<ResponseTimer>>>,
    /// For the task of the stream that was opened last, until the executor gets it.
    next_task: Mutex<Option<AbortRegistration>>,
}

impl Streams {
    /// A request has come; [`StreamExecutor`] gets the stream's task next.
    pub(super) fn open(&self, watchdog: Arc<Watchdog>) -> Arc<ResponseTimer> {
        let (task, registration) = AbortHandle::new_pair();
        *lock(&self.next_task) = Some(registration);
        let (sending_since, sent) = (AtomicU64::new(NONE), AtomicU64::new(0));
        let timer = Arc::new(ResponseTimer { watchdog, task, sending_since, sent });
        let mut timers = lock(&self.timers);
        if timers.len() == timers.capacity() {
            timers.retain(|timer| timer.strong_count() > 0);
        }
        timers.push(Arc::downgrade(&timer));
        timer
    }

    /// Resets the streams whose responses are too slow at `now`. Returns when to look again, in
    /// milliseconds; `None` where a response stays although its stream was reset long ago: then
    /// the connection must end. That is so where the library has taken all of a body and the
    /// client has closed the stream's window again, or takes nothing of the whole connection.
    pub(super) fn reset_overdue(&self, now: u64, timeout_ms: u64) -> Option<u64> {
        let mut next = u64::MAX;
        for timer in lock(&self.timers).iter().filter_map(Weak::upgrade) {
            let Some(deadline) = timer.deadline(timeout_ms) else { continue };
            if deadline > now {
                next = next.min(deadline);
                continue;
            }
            let last = deadline.saturating_add(timeout_ms);
            if last <= now {
                return None;
            }
            timer.task.abort();
            next = next.min(last);
        }
        Some(next)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the tasks of a connection's streams so that they can be aborted, which drops them and so
/// resets the stream. A timer in the body would not do: the library polls no body while a piece of
/// it waits for the stream's window.
#[derive(Debug, Clone)]
pub(super) struct StreamExecutor(pub(super) Arc<Watchdog>);

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    /// The library calls the service and hands over the stream's task right after it.
    fn execute(&self, task: F) {
        let registration = lock(&self.0.streams().next_task).take();
        match registration {
            // Whether it ended by itself or was aborted: the stream is over.
            Some(registration) => drop(tokio::spawn(Abortable::new(task, registration))),
            None => drop(tokio::spawn(task)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::watchdog::tests::{IDLE, RESPONSE, lives_for, watchdog};

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_not_read_is_aborted_and_then_its_connection_ends() {
        let watchdog = watchdog();
        let timer = watchdog.open_stream();
        timer.begin_sending();
        assert_eq!(lives_for(&watchdog).await, 2 * RESPONSE, "its memory was not given back");
        assert!(timer.task.is_aborted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_reset_in_time_leaves_its_connection_alone() {
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
    async fn each_16_kib_are_good_for_a_second() {
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
    async fn streams_that_are_over_take_no_room() {
        let watchdog = watchdog();
        for _ in 0..10_000 {
            drop(watchdog.open_stream());
        }
        assert!(lock(&watchdog.streams().timers).capacity() < 16);
    }
}
