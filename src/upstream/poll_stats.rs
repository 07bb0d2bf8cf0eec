//! Statistics of the polls of the change log.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::change::Changes;
use super::clock::BootInstant;

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

/// Counts the polls of the change log.
#[derive(Debug)]
pub struct PollStats {
    last_success: AtomicI64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    changes: AtomicU64,
}

impl Default for PollStats {
    fn default() -> Self {
        let last_success = AtomicI64::new(BootInstant::now().to_micros());
        let [succeeded, failed, changes] = [const { AtomicU64::new(0) }; 3];
        Self { last_success, succeeded, failed, changes }
    }
}

impl PollStats {
    /// Counts a poll that began at `began` and found these changes.
    pub(super) fn succeeded(&self, found: &Changes, began: BootInstant) {
        self.last_success.store(began.to_micros(), Ordering::Relaxed);
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

    /// The polls so far.
    pub fn counts(&self) -> PollCounts {
        let last_success = BootInstant::from_micros(self.last_success.load(Ordering::Relaxed));
        PollCounts {
            age: last_success.elapsed(),
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
        }
    }
}
