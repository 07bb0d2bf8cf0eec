//! Readiness, and the state of the databases that the service depends on.

use std::ops::Add;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;

/// The state of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dependency {
    /// Available, or not tried yet.
    Up,
    /// Unavailable.
    Down,
    /// Not configured.
    None,
}

/// The state of every dependency.
#[derive(Debug, Clone, Serialize)]
pub struct Dependencies {
    /// The registry's database: up if the primary or a standby is.
    pub upstream: Dependency,
    /// The views that requests read: down if one of them, a column or the right to read it is missing.
    pub views: Dependency,
    /// The change log: down if it cannot be read.
    pub change_log: Dependency,
    /// Its primary; only present if there are standbys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<Dependency>,
    /// Its standbys, in the order of `upstream.read_urls`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub standbys: Vec<Dependency>,
    /// Redis for reads of the shared cache.
    pub redis_read: Dependency,
    /// Redis for limits and for writes to the shared cache.
    pub redis_write: Dependency,
}

/// Returns the current state of the dependencies, from memory: it sends no request to them.
pub type CheckDependencies = Arc<dyn Fn() -> Dependencies + Send + Sync>;

/// The size and use of a connection pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolState {
    /// Maximum number of connections.
    pub max: usize,
    /// Open connections.
    pub size: usize,
    /// Open connections that are not in use.
    pub idle: usize,
    /// Tasks that wait for a connection.
    pub waiting: usize,
}

impl Add for PoolState {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            max: self.max + other.max,
            size: self.size + other.size,
            idle: self.idle + other.idle,
            waiting: self.waiting + other.waiting,
        }
    }
}

/// Whether a replica serves. It only ever moves forward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd)]
enum Phase {
    #[default]
    Starting,
    Ready,
    Draining,
}

/// Whether the replica is ready: from the time it can serve until it drains.
#[derive(Debug, Default)]
pub struct Health(watch::Sender<Phase>);

impl Health {
    /// Marks the replica as able to serve.
    pub fn set_ready(&self) {
        self.advance_to(Phase::Ready);
    }

    /// Marks the replica as shutting down. This cannot be undone.
    pub fn set_draining(&self) {
        self.advance_to(Phase::Draining);
    }

    fn advance_to(&self, phase: Phase) {
        self.0.send_if_modified(|current| {
            let is_forward = *current < phase;
            if is_forward {
                *current = phase;
            }
            is_forward
        });
    }

    /// Whether load balancers should send requests here.
    pub fn is_ready(&self) -> bool {
        *self.0.borrow() == Phase::Ready
    }

    /// Completes while the replica is ready.
    pub async fn ready(&self) {
        // An error would mean that the sender is gone, which is `self`.
        let _ = self.0.subscribe().wait_for(|phase| *phase == Phase::Ready).await;
    }

    /// `starting`, `ready` or `draining`.
    pub fn status(&self) -> &'static str {
        match *self.0.borrow() {
            Phase::Starting => "starting",
            Phase::Ready => "ready",
            Phase::Draining => "draining",
        }
    }
}
