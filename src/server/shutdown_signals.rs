//! The steps of a shutdown, as a listener tells them to its connections.

use tokio_util::sync::CancellationToken;

/// The steps of a listener's shutdown, in this order.
#[derive(Debug, Clone, Default)]
pub(super) struct ShutdownSignals {
    /// Each response is the last one on its connection.
    pub(super) drain: CancellationToken,
    /// Connections close as soon as the requests in progress on them are answered.
    pub(super) stop: CancellationToken,
    /// Connections close at once.
    pub(super) kill: CancellationToken,
}
