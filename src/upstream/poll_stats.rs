//! Statistics of the polls of the change log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::change::Changes;

/// The polls of the change log so far.
#[derive(Debug, Clone, Copy)]
pub struct PollCounts {
    /// Time since the last successful poll began, or since the start.
    pub age: Duration,
    /// Successful polls.
    pub succeeded: u64,
    /// Failed polls.
    pub failed: u64,
    /// Changes found, without those of the first poll.
    pub changes: u64,
}

#[derive(Debug)]
pub(super) struct PollStats {
    begun: Instant,
    last_success_ms: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    changes: AtomicU64,
}

impl PollStats {
    pub(super) fn begin() -> Self {
        let (last_success_ms, succeeded) = (AtomicU64::new(0), AtomicU64::new(0));
        let (failed, changes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { begun: Instant::now(), last_success_ms, succeeded, failed, changes }
    }

    /// Counts a poll that began at `begun` and found these changes.
    pub(super) fn succeeded(&self, found: &Changes, begun: Instant) {
        let begun = begun.saturating_duration_since(self.begun).as_millis();
        self.last_success_ms.store(u64::try_from(begun).unwrap_or(u64::MAX), Ordering::Relaxed);
        let is_first = self.succeeded.fetch_add(1, Ordering::Relaxed) == 0;
        if let Changes::These(changes) = found
            && !is_first
        {
            self.changes.fetch_add(changes.len() as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Time since the last successful poll began, or since the start.
    pub(super) fn age(&self) -> Duration {
        let last_success = Duration::from_millis(self.last_success_ms.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(last_success)
    }

    pub(super) fn counts(&self) -> PollCounts {
        PollCounts {
            age: self.age(),
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
        }
    }
}
