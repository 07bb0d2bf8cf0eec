//! When a connection, or a response on it, has made no progress for too long.
//!
//! Before its first request, a connection has the head timeout, whatever it sends. After that
//! it may be idle for the idle timeout; on HTTP/1.1 the first byte of the next head starts the
//! head timeout again. (On HTTP/2 bytes may be pings, so the idle timeout alone counts there.)
//! While a request is being answered nothing runs out.
//!
//! The client must take a response within the response timeout and one second more for each
//! 16 KiB of it. That is measured for the connection as a whole, from when bytes first had to wait
//! for the client until all are written, and on HTTP/2 for each stream too (see `streams`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Limits;
use super::streams::{ResponseTimer, Streams};

/// On the watchdog's clock: it has not begun.
pub(super) const NONE: u64 = u64::MAX;

/// What a client must take a second, once the response timeout has passed.
const BYTES_PER_SECOND: u64 = 16 * 1024;

/// When a client that has taken `bytes` since `since` is too slow. All times in milliseconds.
pub(super) fn slowest(since: u64, bytes: u64, timeout: u64) -> u64 {
    since.saturating_add(timeout).saturating_add(bytes.saturating_mul(1000) / BYTES_PER_SECOND)
}

/// Watches one connection. Its clock counts milliseconds since the connection was accepted.
#[derive(Debug)]
pub(super) struct Watchdog {
    // Timeouts, in milliseconds.
    head: u64,
    idle: u64,
    response: u64,
    opened: Instant,
    /// Requests that are being answered; on HTTP/2 also those whose responses are being sent.
    in_progress: AtomicUsize,
    had_request: AtomicBool,
    is_http1: AtomicBool,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    /// Since when bytes wait for the client, and how many of them it has taken meanwhile.
    blocked_since: AtomicU64,
    written: AtomicU64,
    streams: Streams,
}

impl Watchdog {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let none = || AtomicU64::new(NONE);
        Arc::new(Self {
            head: milliseconds(limits.head),
            idle: milliseconds(limits.idle),
            response: milliseconds(limits.response),
            opened: Instant::now(),
            in_progress: AtomicUsize::new(0),
            had_request: AtomicBool::new(false),
            is_http1: AtomicBool::new(true),
            idle_since: AtomicU64::new(0),
            head_since: none(),
            blocked_since: none(),
            written: AtomicU64::new(0),
            streams: Streams::default(),
        })
    }

    /// A request has come whole on HTTP/1.1; it is being answered until the result is dropped.
    pub(super) fn begin_answer(self: &Arc<Self>) -> Answering {
        self.begin_request(true);
        Answering(Arc::clone(self))
    }

    /// A request has come on HTTP/2; it is in progress until all references to the result have
    /// been dropped. The stream's task goes to [`super::streams::StreamExecutor`] next.
    pub(super) fn open_stream(self: &Arc<Self>) -> Arc<ResponseTimer> {
        self.begin_request(false);
        self.streams.open(Arc::clone(self))
    }

    fn begin_request(&self, is_http1: bool) {
        self.in_progress.fetch_add(1, Ordering::AcqRel);
        self.had_request.store(true, Ordering::Release);
        self.is_http1.store(is_http1, Ordering::Release);
        self.head_since.store(NONE, Ordering::Release);
    }

    pub(super) fn end_request(&self) {
        self.idle_since.store(self.now(), Ordering::Release);
        self.in_progress.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Completes when the connection must end: it has been silent or dripping for too long, or
    /// the client takes too slowly what is sent. Meanwhile resets streams that are too slow.
    pub(super) async fn expired(&self) {
        // Every deadline is at least this far away when it begins to run.
        let shortest = self.head.min(self.idle).min(self.response);
        loop {
            let now = self.now();
            let Some(deadline) = self.next_deadline(now) else { return };
            let next = deadline.min(now.saturating_add(shortest));
            sleep_until(self.opened + Duration::from_millis(next)).await;
        }
    }

    /// The earliest deadline; `None` if one has passed that ends the connection.
    fn next_deadline(&self, now: u64) -> Option<u64> {
        let streams = self.streams.reset_overdue(now, self.response)?;
        let deadline = streams.min(self.write_deadline()).min(self.idle_deadline());
        (deadline > now).then_some(deadline)
    }

    /// By when the client must have taken what waits for it.
    fn write_deadline(&self) -> u64 {
        match self.blocked_since.load(Ordering::Acquire) {
            NONE => u64::MAX,
            since => slowest(since, self.written.load(Ordering::Acquire), self.response),
        }
    }

    /// By when the next request must have come.
    fn idle_deadline(&self) -> u64 {
        if self.in_progress.load(Ordering::Acquire) > 0 {
            return u64::MAX;
        }
        if !self.had_request.load(Ordering::Acquire) {
            return self.head;
        }
        if self.is_blocked() {
            return u64::MAX;
        }
        let by_idleness = self.idle_since.load(Ordering::Acquire).saturating_add(self.idle);
        let head_since = self.head_since.load(Ordering::Acquire);
        if head_since == NONE || !self.is_http1.load(Ordering::Acquire) {
            return by_idleness;
        }
        by_idleness.min(head_since.saturating_add(self.head))
    }

    /// Completes when nothing in progress has kept the connection open for `long`: only a head
    /// that is not whole or, on HTTP/2, a client that does not answer our GOAWAY.
    pub(super) async fn stalled_for(&self, long: Duration) {
        loop {
            tokio::time::sleep(long).await;
            if self.is_stalled() {
                return;
            }
        }
    }

    fn is_stalled(&self) -> bool {
        if self.in_progress.load(Ordering::Acquire) > 0 {
            return false;
        }
        let is_http1 = self.is_http1.load(Ordering::Acquire);
        let begun_another = is_http1 && self.head_since.load(Ordering::Acquire) != NONE;
        !is_http1 || begun_another || !self.had_request.load(Ordering::Acquire)
    }

    pub(super) fn bytes_came(&self) {
        if self.in_progress.load(Ordering::Acquire) == 0 {
            let now = self.now();
            let _ =
                self.head_since.compare_exchange(NONE, now, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Bytes have to wait for the client from now on.
    pub(super) fn write_blocked(&self) {
        self.written.store(0, Ordering::Release);
        self.blocked_since.store(self.now(), Ordering::Release);
    }

    /// The client has taken so many of them.
    pub(super) fn written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    /// It has taken all.
    pub(super) fn write_drained(&self) {
        let now = self.now();
        self.idle_since.store(now, Ordering::Release);
        // A head that has begun meanwhile could not be read.
        if self.head_since.load(Ordering::Acquire) != NONE {
            self.head_since.store(now, Ordering::Release);
        }
        self.blocked_since.store(NONE, Ordering::Release);
    }

    fn is_blocked(&self) -> bool {
        self.blocked_since.load(Ordering::Acquire) != NONE
    }

    /// Milliseconds since the connection was accepted.
    pub(super) fn now(&self) -> u64 {
        milliseconds(self.opened.elapsed())
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NONE - 1)
}

/// A request on HTTP/1.1 that is being answered.
#[derive(Debug)]
pub(super) struct Answering(Arc<Watchdog>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
pub(super) mod tests;
