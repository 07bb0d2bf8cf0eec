//! How many connections a listener accepts, and how long each may wait.

use std::time::Duration;

/// The limits of one listener and of each of its connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Open connections. Further ones wait in the listener's backlog.
    pub connections: usize,
    /// Time for the head of a request, and for the first request on a new connection.
    pub head: Duration,
    /// Time between two requests.
    pub idle: Duration,
    /// Time for the client to take a response, plus one second for each 16 KiB of it.
    pub response: Duration,
    /// Time for requests in progress to finish at shutdown.
    pub grace: Duration,
}
