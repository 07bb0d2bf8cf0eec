//! Statistics of the polls of the change log, and the clock of the upstream.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::change::Changes;
use crate::registry::Timestamp;

/// The polls of the change log so far.
#[derive(Debug, Clone, Copy)]
pub struct PollCounts {
    /// Time since the last successful poll, or since the start.
    pub age: Duration,
    /// Successful polls.
    pub good: u64,
    /// Failed polls.
    pub failed: u64,
    /// Changes found, without those of the first poll.
    pub changes: u64,
}

#[derive(Debug)]
pub(super) struct PollStats {
    begun: Instant,
    last_good_ms: AtomicU64,
    good: AtomicU64,
    failed: AtomicU64,
    changes: AtomicU64,
}

impl PollStats {
    pub(super) fn begin() -> Self {
        let (last_good_ms, good) = (AtomicU64::new(0), AtomicU64::new(0));
        let (failed, changes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { begun: Instant::now(), last_good_ms, good, failed, changes }
    }

    pub(super) fn good(&self, found: &Changes) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_good_ms.store(now, Ordering::Relaxed);
        let is_first = self.good.fetch_add(1, Ordering::Relaxed) == 0;
        if let Changes::These(changes) = found
            && !is_first
        {
            self.changes.fetch_add(changes.len() as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> PollCounts {
        let last_good = Duration::from_millis(self.last_good_ms.load(Ordering::Relaxed));
        PollCounts {
            age: self.begun.elapsed().saturating_sub(last_good),
            good: self.good.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
        }
    }
}

/// Estimates the upstream's clock, so that replicas with different clocks agree on ages.
#[derive(Debug, Default)]
pub(super) struct Clock {
    ahead_by_us: AtomicI64,
}

impl Clock {
    pub(super) fn now(&self) -> Timestamp {
        let ahead = jiff::SignedDuration::from_micros(self.ahead_by_us.load(Ordering::Relaxed));
        let now = Timestamp::now();
        now.saturating_add(ahead).unwrap_or(now)
    }

    /// Sets the clock: the upstream's time was `upstream` between the local time `asked` and now.
    pub(super) fn set(&self, upstream: Timestamp, asked: Timestamp) {
        let middle = asked.as_microsecond().midpoint(Timestamp::now().as_microsecond());
        let ahead = upstream.as_microsecond().saturating_sub(middle);
        self.ahead_by_us.store(ahead, Ordering::Relaxed);
    }
}
