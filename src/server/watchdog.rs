//! Decides when a connection, or a response on it, has made no progress for too long.
//!
//! Before its first request, a connection has the head timeout, whatever it sends. After that
//! it may be idle for the idle timeout; on HTTP/1.1 the first byte of the next head starts the
//! head timeout again. (On HTTP/2 the bytes may be pings, so only the idle timeout counts there.)
//! No timeout runs while a request is being answered.
//!
//! The client must take a response within the response timeout and one second more for each
//! 16 KiB of it. This is measured for the connection as a whole, from when bytes first had to wait
//! for the client until all are written, and on HTTP/2 for each stream too (see `streams`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep_until;

use super::connection_activity::{ConnectionActivity, NEVER, delivery_deadline, milliseconds};
use super::connection_limits::ConnectionLimits;
use super::streams::{ResponseTimer, Streams};

/// Watches one connection.
#[derive(Debug)]
pub(super) struct Watchdog {
    // Timeouts, in milliseconds.
    head: u64,
    idle: u64,
    response: u64,
    activity: Arc<ConnectionActivity>,
    /// Since when bytes wait for the client, on the connection's clock.
    blocked_since: AtomicU64,
    /// How many bytes the client has taken since then.
    written: AtomicU64,
    streams: Streams,
}

impl Watchdog {
    pub(super) fn new(limits: &ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            head: milliseconds(limits.head),
            idle: milliseconds(limits.idle),
            response: milliseconds(limits.response),
            activity: Arc::new(ConnectionActivity::new()),
            blocked_since: AtomicU64::new(NEVER),
            written: AtomicU64::new(0),
            streams: Streams::default(),
        })
    }

    /// A complete request has been received on HTTP/1.1. It is in progress until the result is
    /// dropped.
    pub(super) fn begin_http1_request(&self) -> RequestGuard {
        self.activity.begin_request(true);
        RequestGuard(Arc::clone(&self.activity))
    }

    /// A request has been received on HTTP/2. It is in progress until all references to the result
    /// have been dropped. `StreamExecutor` gets the stream's task next.
    pub(super) fn open_stream(&self) -> Arc<ResponseTimer> {
        self.activity.begin_request(false);
        self.streams.open(Arc::clone(&self.activity))
    }

    pub(super) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Completes when the connection must end: it has been silent or dripping for too long, or
    /// the client takes too slowly what is sent. Meanwhile resets streams that are too slow.
    pub(super) async fn expired(&self) {
        // A deadline is at least this far in the future when it begins to run.
        let shortest = self.head.min(self.idle).min(self.response);
        loop {
            let now = self.activity.now();
            let Some(deadline) = self.next_deadline(now) else { return };
            let next = deadline.min(now.saturating_add(shortest));
            sleep_until(self.activity.opened + Duration::from_millis(next)).await;
        }
    }

    /// The earliest deadline; `None` if one has passed that ends the connection.
    fn next_deadline(&self, now: u64) -> Option<u64> {
        let streams = self.streams.reset_overdue(now, self.response)?;
        let request = self.activity.request_deadline(self.head, self.idle, self.is_blocked());
        let deadline = streams.min(self.write_deadline()).min(request);
        (deadline > now).then_some(deadline)
    }

    /// When the client must have taken the bytes that wait for it.
    fn write_deadline(&self) -> u64 {
        match self.blocked_since.load(Ordering::Acquire) {
            NEVER => NEVER,
            since => delivery_deadline(since, self.written.load(Ordering::Acquire), self.response),
        }
    }

    /// Completes when no request has kept the connection open for `duration`: only an incomplete
    /// head or, on HTTP/2, a client that does not answer our GOAWAY.
    pub(super) async fn stalled_for(&self, duration: Duration) {
        loop {
            tokio::time::sleep(duration).await;
            if self.activity.is_stalled() {
                return;
            }
        }
    }

    /// Bytes have been received from the client.
    pub(super) fn bytes_received(&self) {
        self.activity.bytes_received();
    }

    /// From now on, bytes wait for the client.
    pub(super) fn write_blocked(&self) {
        self.written.store(0, Ordering::Release);
        self.blocked_since.store(self.activity.now(), Ordering::Release);
    }

    /// The client has taken this many of the bytes that waited.
    pub(super) fn written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    /// The client has taken all bytes that waited.
    pub(super) fn write_drained(&self) {
        self.activity.writes_drained();
        self.blocked_since.store(NEVER, Ordering::Release);
    }

    fn is_blocked(&self) -> bool {
        self.blocked_since.load(Ordering::Acquire) != NEVER
    }
}

/// A request on HTTP/1.1 that is being answered.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<ConnectionActivity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
pub(super) mod tests;
