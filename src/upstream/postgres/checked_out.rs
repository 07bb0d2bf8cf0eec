//! A connection while a statement runs on it. A connection whose statement has not ended never
//! returns to the pool; dropping it cancels the statement.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection_budget::ConnectionPermit;
use super::manager::PooledConnection;

/// A connection that is taken from the pool.
pub(super) struct CheckedOut<'a> {
    /// `None` after [`Self::release`] or [`Self::discard`].
    pub(super) connection: Option<PooledConnection>,
    /// For the cancel request; `None` if statements are not cancelled.
    pub(super) tls: Option<&'a MakeRustlsConnect>,
    pub(super) cancel_timeout: Duration,
    pub(super) _permit: ConnectionPermit,
}

impl CheckedOut<'_> {
    /// Returns the connection to the pool. The statement must have ended.
    pub(super) fn release(&mut self) {
        self.connection = None;
    }

    /// Closes the connection.
    pub(super) fn discard(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(PooledConnection::take(connection));
        }
    }
}

impl Drop for CheckedOut<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let connection = PooledConnection::take(connection);
        let Some(tls) = self.tls.cloned() else { return };
        let (cancel, cancel_timeout) = (connection.cancel_token(), self.cancel_timeout);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            // Kept open until then: the server needs the session to cancel its statement.
            if !matches!(timeout(cancel_timeout, cancel.cancel_query(tls)).await, Ok(Ok(()))) {
                tracing::debug!("an abandoned statement could not be cancelled");
            }
            drop(connection);
        });
    }
}
