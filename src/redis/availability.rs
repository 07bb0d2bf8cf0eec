//! Whether a server is available: its circuit breakers, and the connections and commands that it refuses.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use bb8::ErrorSink;
use redis::RedisError;
use tokio::sync::Notify;

use super::manager::is_refusal;
use super::refusals::RefusalLog;
use crate::sync::{Breaker, CallOutcome};

/// Whether a command reads or writes. Each mode has a breaker of its own, since a full or read-only
/// server still replies to reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// Commands that change nothing.
    Read,
    /// Commands that write.
    Write,
}

/// Whether a server is available, for all of its pools.
#[derive(Debug)]
pub(super) struct Availability {
    /// By [`AccessMode`].
    breakers: [Breaker; 2],
    pub(super) refusals: RefusalLog,
    /// Notified when a connection has been refused.
    pub(super) refused: Notify,
}

impl Availability {
    /// The log calls the server `name`. `open_count`: see [`super::node_pool::NodeSettings`].
    pub(super) fn new(name: &str, open_count: &[Arc<AtomicU64>; 2]) -> Self {
        let breaker = |(open_count, word): (&Arc<AtomicU64>, _)| {
            Breaker::counted_in(Arc::clone(open_count), format!("{name} ({word})"))
        };
        let [reads, writes] = open_count;
        let breakers = [(reads, "reads"), (writes, "writes")].map(breaker);
        Self { breakers, refusals: RefusalLog::new(name), refused: Notify::new() }
    }

    pub(super) fn breaker(&self, mode: AccessMode) -> &Breaker {
        &self.breakers[mode as usize]
    }
}

/// Records connections that could not be made.
#[derive(Debug, Clone)]
pub(super) struct ConnectErrorSink(pub(super) Arc<Availability>);

impl ErrorSink<RedisError> for ConnectErrorSink {
    fn sink(&self, error: RedisError) {
        if is_refusal(&error) {
            let now = Instant::now();
            for breaker in &self.0.breakers {
                breaker.record(CallOutcome::Refused, now, now, || Some(error.to_string()));
            }
            self.0.refused.notify_waiters();
        }
    }

    fn boxed_clone(&self) -> Box<dyn ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}
