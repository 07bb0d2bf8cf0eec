//! Decides when a connection, or a response on it, has made no progress for too long.
//!
//! Before its first request, a connection has the head timeout, whatever it sends. After that
//! it may be idle for the idle timeout; on HTTP/1.1 the first byte of the next head starts the
//! head timeout again. (On HTTP/2 the bytes may be pings, so only the idle timeout counts there.)
//! No timeout runs while a request is being answered. In a crowd (see `crowd`), all timeouts are short, and
//! a stream that is too slow ends its connection.
//!
//! The client must take a response within the response timeout and one second more for each
//! 16 KiB of it. This is measured for the connection as a whole, from when bytes first had to wait
//! for the client until all are written, and on HTTP/2 for each stream too (see `streams`). What the system
//! buffered before extends no deadline: a client that does not read has it too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep_until;

use super::connection_activity::{ConnectionActivity, RequestGuard, milliseconds};
use super::connection_limits::ConnectionLimits;
use super::crowd::{CROWDED_AGE, CROWDED_IDLE, CROWDED_RESPONSE, Crowd};
use super::delivery::Delivery;
use super::streams::{ResponseTimer, Streams};

/// Timeouts, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    head: u64,
    idle: u64,
    response: u64,
}

/// Watches one connection.
#[derive(Debug)]
pub(super) struct Watchdog {
    timeouts: Timeouts,
    activity: Arc<ConnectionActivity>,
    /// In progress while bytes wait for the client.
    writes: Delivery,
    pub(super) streams: Streams,
    is_cut_off: AtomicBool,
    crowd: Option<Arc<Crowd>>,
}

impl Timeouts {
    fn in_crowd(self, is_crowd: bool) -> Self {
        let Self { head, idle, response } = self;
        if is_crowd {
            Self {
                head: head.min(CROWDED_IDLE),
                idle: idle.min(CROWDED_IDLE),
                response: response.min(CROWDED_RESPONSE),
            }
        } else {
            self
        }
    }
}

impl Watchdog {
    /// `crowd`: the open connections of the listener; `None` if this one need not make room for others.
    pub(super) fn new(limits: &ConnectionLimits, crowd: Option<Arc<Crowd>>) -> Arc<Self> {
        let [head, idle, response] = [limits.head, limits.idle, limits.response].map(milliseconds);
        Arc::new(Self {
            timeouts: Timeouts { head, idle, response },
            activity: Arc::new(ConnectionActivity::new()),
            writes: Delivery::new(),
            streams: Streams::default(),
            is_cut_off: AtomicBool::new(false),
            crowd,
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
            let [is_crowd, is_near] =
                self.crowd.as_ref().map_or([false; 2], |crowd| [crowd.is_crowd(), crowd.is_near()]);
            let (now, timeouts) = (self.activity.now(), self.timeouts.in_crowd(is_crowd));
            let Some(deadline) = self.next_deadline(now, timeouts, is_crowd) else { return };
            // A deadline is at least this far in the future when it begins to run.
            let Timeouts { head, idle, response } = self.timeouts.in_crowd(is_near);
            let next = deadline.min(now.saturating_add(head.min(idle).min(response)));
            sleep_until(self.activity.opened + Duration::from_millis(next)).await;
        }
    }

    /// The earliest deadline; `None` if one has passed that ends the connection.
    fn next_deadline(&self, now: u64, timeouts: Timeouts, is_crowd: bool) -> Option<u64> {
        let Timeouts { head, idle, response } = timeouts;
        // In a crowd, a client could go on by opening a stream before each one is reset.
        let grace = if is_crowd { 0 } else { response };
        let streams = self.streams.reset_overdue(now, response, grace)?;
        let request = self.activity.request_deadline(head, idle, self.is_blocked());
        let deadline = streams.min(self.writes.deadline(response)).min(request);
        (deadline > now).then_some(deadline)
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

    /// Whether the next response should be the last one, to make room for other clients.
    pub(super) fn must_make_room(&self) -> bool {
        let is_crowd = self.crowd.as_ref().is_some_and(|crowd| crowd.is_crowd());
        is_crowd && self.activity.now() > CROWDED_AGE
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
