//! A crowd: more than half of a listener's connections are open. Then those that do nothing must make room
//! for other clients soon.

use std::time::Duration;

use tokio_util::task::TaskTracker;

/// In a crowd: the time for a handshake or the head of a request, and for which a connection may be idle,
/// in milliseconds.
pub(super) const CROWDED_IDLE: u64 = 1_000;

/// In a crowd: the time in which a client must begin to take a response, in milliseconds.
pub(super) const CROWDED_RESPONSE: u64 = 5_000;

/// In a crowd: the age of a connection after which its next response is the last one, in milliseconds.
/// Otherwise requests without an end would keep it open.
pub(super) const CROWDED_AGE: u64 = 5_000;

/// The open connections of a listener.
#[derive(Debug)]
pub(super) struct Crowd {
    pub(super) open: TaskTracker,
    max_open: usize,
}

impl Crowd {
    /// `max_open`: the maximum number of connections.
    pub(super) fn new(max_open: usize) -> Self {
        Self { open: TaskTracker::new(), max_open }
    }

    pub(super) fn is_crowd(&self) -> bool {
        self.open.len() > self.max_open / 2
    }

    /// Whether there may soon be one: connections look often then. Those that were opened before are too few
    /// to matter.
    pub(super) fn is_near(&self) -> bool {
        self.open.len() > self.max_open / 4
    }

    /// Completes once there is a crowd, but not before as much time has passed as a handshake may take then.
    pub(super) async fn is_impatient(&self) {
        loop {
            tokio::time::sleep(Duration::from_millis(CROWDED_IDLE)).await;
            if self.is_crowd() {
                return;
            }
        }
    }
}
