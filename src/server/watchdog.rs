//! Decides when a connection, or a response on it, has made no progress for too long.
//!
//! Before its first request, a connection has the head timeout, whatever it sends. After that
//! it may be idle for the idle timeout, or for one second while more than half of the listener's
//! connections are in use, so that there is room for other clients; on HTTP/1.1 the first byte of the next head starts the
//! head timeout again. (On HTTP/2 the bytes may be pings, so only the idle timeout counts there.)
//! No timeout runs while a request is being answered.
//!
//! The client must take a response within the response timeout and one second more for each
//! 16 KiB of it. This is measured for the connection as a whole, from when bytes first had to wait
//! for the client until all are written, and on HTTP/2 for each stream too (see `streams`). What the system
//! buffered before extends no deadline: a client that does not read has it too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep_until;
use tokio_util::task::TaskTracker;

use super::connection_activity::{ConnectionActivity, RequestGuard, milliseconds};
use super::connection_limits::ConnectionLimits;
use super::delivery::Delivery;
use super::streams::{ResponseTimer, Streams};

/// The idle timeout, in milliseconds, while more than half of the listener's connections are in use.
const CROWDED_IDLE: u64 = 1_000;

/// Watches one connection.
#[derive(Debug)]
pub(super) struct Watchdog {
    // Timeouts, in milliseconds.
    head: u64,
    idle: u64,
    response: u64,
    activity: Arc<ConnectionActivity>,
    /// In progress while bytes wait for the client.
    writes: Delivery,
    pub(super) streams: Streams,
    is_cut_off: AtomicBool,
    /// The open connections of the listener, if their number matters.
    open: Option<TaskTracker>,
    /// The maximum of `open`.
    max_open: usize,
}

impl Watchdog {
    /// `open`: the open connections of the listener; `None` if the connection may be idle however many
    /// there are.
    pub(super) fn new(limits: &ConnectionLimits, open: Option<TaskTracker>) -> Arc<Self> {
        Arc::new(Self {
            head: milliseconds(limits.head),
            idle: milliseconds(limits.idle),
            response: milliseconds(limits.response),
            activity: Arc::new(ConnectionActivity::new()),
            writes: Delivery::new(),
            streams: Streams::default(),
            is_cut_off: AtomicBool::new(false),
            open,
            max_open: limits.connections,
        })
    }

    /// A complete request has been received on HTTP/1.1. It is in progress until the result is
    /// dropped.
    pub(super) fn begin_http1_request(&self) -> RequestGuard {
        self.activity.begin_request(true)
    }

    /// A request has been received on HTTP/2. It is in progress until all references to the result
    /// have been dropped. `StreamExecutor` gets the stream's task next.
    pub(super) fn open_stream(&self) -> Arc<ResponseTimer> {
        self.streams.open(self.activity.begin_request(false))
    }

    /// Completes when the connection must end: it has been silent or dripping for too long, or
    /// the client takes too slowly what is sent. Meanwhile resets streams that are too slow.
    pub(super) async fn expired(&self) {
        loop {
            let (now, idle) = (self.activity.now(), self.idle_timeout());
            let Some(deadline) = self.next_deadline(now, idle) else { return };
            // A deadline is at least this far in the future when it begins to run.
            let shortest = self.head.min(idle).min(self.response);
            let next = deadline.min(now.saturating_add(shortest));
            sleep_until(self.activity.opened + Duration::from_millis(next)).await;
        }
    }

    /// The earliest deadline; `None` if one has passed that ends the connection.
    fn next_deadline(&self, now: u64, idle: u64) -> Option<u64> {
        let streams = self.streams.reset_overdue(now, self.response)?;
        let request = self.activity.request_deadline(self.head, idle, self.is_blocked());
        let deadline = streams.min(self.writes.deadline(self.response)).min(request);
        (deadline > now).then_some(deadline)
    }

    fn idle_timeout(&self) -> u64 {
        let is_crowded = self.open.as_ref().is_some_and(|open| open.len() > self.max_open / 2);
        if is_crowded { self.idle.min(CROWDED_IDLE) } else { self.idle }
    }

    /// Completes once no request is in progress at the end of a `duration`, so that a shutdown may cut
    /// the connection.
    pub(super) async fn stalled_for(&self, duration: Duration) {
        loop {
            tokio::time::sleep(duration).await;
            if self.activity.may_be_cut_at_shutdown() {
                return;
            }
        }
    }

    /// Bytes have been received from the client.
    pub(super) fn bytes_received(&self) {
        self.activity.bytes_received();
    }

    /// Bytes wait for the client.
    pub(super) fn write_blocked(&self) {
        if !self.is_blocked() {
            self.writes.begin(self.activity.now());
        }
    }

    /// The client has taken this many of the bytes that waited.
    pub(super) fn written(&self, bytes: usize) {
        self.writes.add(bytes);
    }

    /// The client has taken all bytes that waited.
    pub(super) fn write_drained(&self) {
        self.activity.write_drained();
        self.writes.end();
    }

    /// The connection is cut off: what the client has not taken is to be discarded.
    pub(super) fn cut_off(&self) {
        self.is_cut_off.store(true, Ordering::Release);
    }

    /// Whether the connection is cut off.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Acquire)
    }

    /// Whether bytes wait for the client.
    pub(super) fn is_blocked(&self) -> bool {
        self.writes.is_in_progress()
    }
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
pub(super) mod tests;
