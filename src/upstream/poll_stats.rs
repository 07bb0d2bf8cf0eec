//! Statistics of the polls of the change log.

use super::change::Changes;
use super::clock::BootInstant;

/// The polls of the change log so far.
#[derive(Debug, Clone, Copy)]
pub struct PollStats {
    /// When the last successful poll began; before the first one, the start.
    pub last_success: BootInstant,
    /// Successful polls.
    pub succeeded: u64,
    /// Failed polls.
    pub failed: u64,
    /// Changes found, without those of the first poll.
    pub changes: u64,
}

impl Default for PollStats {
    fn default() -> Self {
        Self { last_success: BootInstant::now(), succeeded: 0, failed: 0, changes: 0 }
    }
}

impl PollStats {
    /// Counts a successful poll that began at `began` and found these changes.
    pub(super) fn add(&mut self, found: &Changes, began: BootInstant) {
        if let Changes::These(changes) = found
            && self.succeeded > 0
        {
            self.changes += changes.len() as u64;
        }
        self.succeeded += 1;
        self.last_success = began;
    }
}
