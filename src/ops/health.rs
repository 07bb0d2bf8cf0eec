//! Whether the service is alive, ready, and how its dependencies are.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

/// How a dependency is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dependency {
    /// It answers, or there is no reason to think otherwise.
    Up,
    /// It does not answer.
    Down,
    /// The service runs without it.
    None,
}

/// A pool's connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolState {
    /// Connections at most.
    pub most: usize,
    /// Connections there are.
    pub size: usize,
    /// Of these, not in use.
    pub idle: usize,
    /// Those who wait for one.
    pub waiting: usize,
}

/// Readiness: from the first time the service can serve until it drains.
#[derive(Debug, Default)]
pub struct Health {
    can_serve: AtomicBool,
    draining: AtomicBool,
}

impl Health {
    /// The service can serve from now on.
    pub fn set_ready(&self) {
        self.can_serve.store(true, Ordering::Release);
    }

    /// The service is about to end.
    pub fn set_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether requests should be sent here.
    pub fn is_ready(&self) -> bool {
        self.can_serve.load(Ordering::Acquire) && !self.draining.load(Ordering::Acquire)
    }

    /// `starting`, `ready` or `draining`.
    pub fn status(&self) -> &'static str {
        if self.draining.load(Ordering::Acquire) {
            "draining"
        } else if self.is_ready() {
            "ready"
        } else {
            "starting"
        }
    }
}
