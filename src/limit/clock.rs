//! The clock of the limits.

use std::time::Instant;

/// The time by the clock that all limits use: the runtime's, which tests can control.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
