//! Bounds how often something is logged that clients could otherwise cause at will.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::lock;

/// Minimum time between two log lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// When something was last logged.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<Option<Instant>>);

impl LogThrottle {
    /// Whether a line is due now. If so, it counts as logged.
    pub(crate) fn is_due(&self) -> bool {
        let mut logged_at = lock(&self.0);
        let is_due = logged_at.is_none_or(|at| at.elapsed() >= INTERVAL);
        if is_due {
            *logged_at = Some(Instant::now());
        }
        is_due
    }
}
