//! Times how fast a client takes the bytes that are sent to it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A time on the connection's clock that has not come yet.
pub(super) const NEVER: u64 = u64::MAX;

/// The bytes that a client must take per second once the response timeout has passed.
pub(super) const BYTES_PER_SECOND: u64 = 16 * 1024;

/// Since when bytes wait for a client, and how many it has taken since then. Times are in
/// milliseconds on the connection's clock.
#[derive(Debug)]
pub(super) struct Delivery {
    /// [`NEVER`] while no bytes wait.
    since: AtomicU64,
    taken: AtomicU64,
}

impl Delivery {
    /// No bytes wait.
    pub(super) const fn new() -> Self {
        Self { since: AtomicU64::new(NEVER), taken: AtomicU64::new(0) }
    }

    /// Bytes wait from now on.
    pub(super) fn begin(&self, now: u64) {
        self.taken.store(0, Ordering::Release);
        self.since.store(now, Ordering::Release);
    }

    /// The client has taken this many bytes.
    pub(super) fn add(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    /// The client has taken all bytes.
    pub(super) fn end(&self) {
        self.since.store(NEVER, Ordering::Release);
    }

    pub(super) fn is_in_progress(&self) -> bool {
        self.since.load(Ordering::Acquire) != NEVER
    }

    /// When the client is too slow: after `timeout`, and one second more for each
    /// [`BYTES_PER_SECOND`] that it has taken. [`NEVER`] while no bytes wait.
    pub(super) fn deadline(&self, timeout: u64) -> u64 {
        let bonus = self.taken.load(Ordering::Acquire).saturating_mul(1000) / BYTES_PER_SECOND;
        self.since.load(Ordering::Acquire).saturating_add(timeout).saturating_add(bonus)
    }
}
