//! The clock of the upstream, so that replicas with different clocks agree on ages.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::registry::Timestamp;

/// Estimates the upstream's time from its polls; until the first one, the local time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    ahead_by_us: AtomicI64,
}

impl Clock {
    /// The upstream's current time.
    pub(super) fn now(&self) -> Timestamp {
        let ahead = jiff::SignedDuration::from_micros(self.ahead_by_us.load(Ordering::Relaxed));
        let now = Timestamp::now();
        now.saturating_add(ahead).unwrap_or(now)
    }

    /// Sets the clock: the upstream's time was `upstream` at some moment between the local time
    /// `sent_at` and now.
    pub(super) fn set(&self, upstream: Timestamp, sent_at: Timestamp) {
        let middle = sent_at.as_microsecond().midpoint(Timestamp::now().as_microsecond());
        let ahead = upstream.as_microsecond().saturating_sub(middle);
        self.ahead_by_us.store(ahead, Ordering::Relaxed);
    }
}
