//! Connections in use. A connection whose statement has not ended never returns to the pool; dropping
//! it cancels the statement.
//!
//! If the server rejects a connection because it is full, the number of connections that the pool uses
//! at once shrinks by one, until [`ConnectionBudget::grow`] tries again. It never shrinks below one, so
//! that a later attempt detects when the server accepts connections again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect::PooledConnection;

/// A connection that is taken from the pool.
pub(super) struct CheckedOut<'a> {
    /// `None` after [`Self::end`].
    pub(super) connection: Option<PooledConnection>,
    /// For the cancel request; `None` if statements are not cancelled.
    pub(super) tls: Option<&'a MakeRustlsConnect>,
    pub(super) cancel_timeout: Duration,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl CheckedOut<'_> {
    /// Returns the connection to the pool, or closes it. The statement must have ended.
    pub(super) fn end(mut self, is_reusable: bool) {
        let connection = self.connection.take();
        if !is_reusable {
            drop(connection.map(PooledConnection::take));
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

/// A number of permits that shrinks and grows.
#[derive(Debug)]
pub(super) struct ConnectionBudget {
    free: Arc<Semaphore>,
    max: usize,
    withheld: AtomicUsize,
}

impl ConnectionBudget {
    /// A budget of `max` permits, at least 1.
    pub(super) fn new(max: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(max)), max, withheld: AtomicUsize::new(0) }
    }

    /// Waits for a permit, first come, first served. Never returns `None`, because the semaphore is
    /// never closed.
    pub(super) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// How many permits there are at present, and how many callers wait for one.
    pub(super) fn state(&self) -> (usize, usize) {
        let max = self.max - self.withheld.load(Ordering::Acquire);
        // Each permit in use and each waiting caller has a reference to the semaphore.
        let in_use = max.saturating_sub(self.free.available_permits());
        (max, Arc::strong_count(&self.free).saturating_sub(1 + in_use))
    }

    /// Shrinks the budget by this permit, because the server rejected its connection. Returns the
    /// permit if it is the last one.
    pub(super) fn shrink(&self, permit: OwnedSemaphorePermit) -> Option<OwnedSemaphorePermit> {
        let more = |withheld| Some(withheld + 1).filter(|&withheld| withheld < self.max);
        let shrunk = self.withheld.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        if shrunk.is_err() {
            return Some(permit);
        }
        permit.forget();
        None
    }

    /// Grows the budget by one, up to its original size.
    pub(super) fn grow(&self) {
        let less = |withheld: usize| withheld.checked_sub(1);
        if self.withheld.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok() {
            self.free.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_budget_shrinks_to_one_and_grows_back_to_its_size() {
        let budget = ConnectionBudget::new(3);
        let mut kept = Vec::new();
        for _ in 0..3 {
            kept.push(budget.acquire().await.expect("a permit"));
        }
        assert!(budget.shrink(kept.pop().expect("a permit")).is_none());
        assert!(budget.shrink(kept.pop().expect("a permit")).is_none());
        let last = budget.shrink(kept.pop().expect("a permit")).expect("the last one stays");
        let waiting = Arc::clone(&budget.free).acquire_owned();
        assert_eq!(budget.state(), (1, 1));
        drop((last, waiting));
        for expected in [2, 3, 3, 3] {
            budget.grow();
            assert_eq!(
                (budget.state(), budget.free.available_permits()),
                ((expected, 0), expected)
            );
        }
    }
}
