//! Runs the tasks of HTTP/2 streams so that the watchdog can abort them.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::Abortable;
use hyper::rt::Executor;

use super::watchdog::Watchdog;

/// Spawns the tasks of one connection's streams. Aborting a task drops it, which resets the
/// stream. A timer in the body would not do: the library polls no body while a piece of it waits
/// for the stream's window.
#[derive(Debug, Clone)]
pub(super) struct StreamExecutor(pub(super) Arc<Watchdog>);

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    /// The library calls the service and hands over the stream's task right after it.
    fn execute(&self, task: F) {
        match self.0.streams.take_next_task() {
            // Whether it finished or was aborted: the stream is over.
            Some(registration) => drop(tokio::spawn(Abortable::new(task, registration))),
            None => drop(tokio::spawn(task)),
        }
    }
}
