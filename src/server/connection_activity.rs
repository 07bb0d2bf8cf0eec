//! What a connection is doing: the requests in progress on it, and since when it is idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::delivery::NEVER;

/// `duration` in milliseconds; less than [`NEVER`].
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NEVER - 1)
}

/// The activity of one connection. Its clock counts milliseconds since the connection was
/// accepted.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    pub(super) opened: Instant,
    /// Requests that are being answered; on HTTP/2 also those whose responses are being sent, which
    /// may outlast other requests.
    in_progress: AtomicUsize,
    had_request: AtomicBool,
    is_http1: AtomicBool,
    idle_since: AtomicU64,
    head_since: AtomicU64,
}

impl ConnectionActivity {
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            in_progress: AtomicUsize::new(0),
            had_request: AtomicBool::new(false),
            is_http1: AtomicBool::new(true),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(NEVER),
        }
    }

    /// Milliseconds since the connection was accepted.
    pub(super) fn now(&self) -> u64 {
        milliseconds(self.opened.elapsed())
    }

    /// A complete request has been received. It is in progress until the result is dropped.
    pub(super) fn begin_request(self: &Arc<Self>, is_http1: bool) -> RequestGuard {
        self.in_progress.fetch_add(1, Ordering::AcqRel);
        self.had_request.store(true, Ordering::Release);
        self.is_http1.store(is_http1, Ordering::Release);
        self.head_since.store(NEVER, Ordering::Release);
        RequestGuard(Arc::clone(self))
    }

    /// Bytes have been received. Outside a request, the first ones start the timeout of the next head.
    pub(super) fn bytes_received(&self) {
        if !self.is_busy() {
            let now = self.now();
            let _ =
                self.head_since.compare_exchange(NEVER, now, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// All bytes that waited for the client have been written. Nothing was read meanwhile, so a head
    /// that has begun to arrive gets its full timeout from now.
    pub(super) fn write_drained(&self) {
        let now = self.now();
        self.idle_since.store(now, Ordering::Release);
        if self.has_begun_head() {
            self.head_since.store(now, Ordering::Release);
        }
    }

    /// When the next complete head must have been received: the first within `head_timeout` of the
    /// start, later ones within `idle_timeout` of the last activity and, on HTTP/1.1, within
    /// `head_timeout` of their first byte. [`NEVER`] while a request is in progress or, after the
    /// first request, while bytes wait for the client (`is_blocked`).
    pub(super) fn request_deadline(
        &self,
        head_timeout: u64,
        idle_timeout: u64,
        is_blocked: bool,
    ) -> u64 {
        if self.is_busy() {
            return NEVER;
        }
        if !self.had_request.load(Ordering::Acquire) {
            return head_timeout;
        }
        if is_blocked {
            return NEVER;
        }
        let idle_deadline = self.idle_since.load(Ordering::Acquire).saturating_add(idle_timeout);
        let head_since = self.head_since.load(Ordering::Acquire);
        if head_since == NEVER || !self.is_http1.load(Ordering::Acquire) {
            return idle_deadline;
        }
        idle_deadline.min(head_since.saturating_add(head_timeout))
    }

    /// Whether a shutdown may cut the connection: no request is in progress, and what keeps it open
    /// is an incomplete head or, on HTTP/2, a client that ignores GOAWAY.
    pub(super) fn may_be_cut_at_shutdown(&self) -> bool {
        if self.is_busy() {
            return false;
        }
        let is_http1 = self.is_http1.load(Ordering::Acquire);
        !is_http1 || self.has_begun_head() || !self.had_request.load(Ordering::Acquire)
    }

    fn is_busy(&self) -> bool {
        self.in_progress.load(Ordering::Acquire) > 0
    }

    fn has_begun_head(&self) -> bool {
        self.head_since.load(Ordering::Acquire) != NEVER
    }
}

/// A request in progress on a connection.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<ConnectionActivity>);

impl RequestGuard {
    /// Milliseconds since the connection was accepted.
    pub(super) fn now(&self) -> u64 {
        self.0.now()
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.now(), Ordering::Release);
        self.0.in_progress.fetch_sub(1, Ordering::AcqRel);
    }
}
