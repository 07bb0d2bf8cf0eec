//! Chooses the server of each read. Genes are read at the standbys in turn, or at the primary if the
//! standby lacks a known change or does not show a later state than the caller already has. API keys
//! are read at the primary, because a new key is used at once, or at a standby while that is
//! unavailable.

use std::sync::Arc;

use tokio::time::{Instant, timeout, timeout_at};

use super::change::DependsOn;
use super::change_log::Currency;
use super::client::UpstreamClient;
use super::clock::BootInstant;
use super::error::{UpstreamError, record};
use super::read::{Read, ReadOrder, ReadStamp};
use super::source::Upstream;
use crate::registry::{ApiKeyRecord, KeyHash};

impl UpstreamClient {
    /// Reads genes, in a later state than `since`, which the caller already has.
    pub async fn read_genes<T, R>(
        self: &Arc<Self>,
        depends_on: DependsOn<'_>,
        since: Option<ReadOrder>,
        read: impl Fn(Arc<dyn Upstream>) -> R,
    ) -> Result<Read<T>, UpstreamError>
    where
        R: Future<Output = Result<Read<T>, UpstreamError>>,
    {
        if self.standbys.each.is_empty() {
            return self.read_at_primary(read).await;
        }
        let end = Instant::now() + self.standbys.deadline;
        let shows_changes = |seen: &ReadStamp| self.shows(depends_on, seen);
        // Nobody has a later state while the primary is unavailable.
        let since = since.filter(|_| self.is_primary_in_use());
        if let Some(found) = self.standbys.read(since, shows_changes, &read).await {
            return Ok(found);
        }
        let found = timeout_at(end, self.read_at_primary(read)).await;
        found.unwrap_or(Err(UpstreamError::Timeout))
    }

    /// Reads the records of the API keys with these hashes, in their order; `None` for unknown keys.
    pub async fn api_keys(
        self: &Arc<Self>,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        let read = |from: Arc<dyn Upstream>| async move { from.api_keys(hashes).await };
        if self.standbys.each.is_empty() {
            return self.read_at_primary(read).await;
        }
        let shows_changes =
            |seen: &ReadStamp| hashes.iter().all(|hash| self.shows(DependsOn::Key(hash), seen));
        let at_standby = || self.standbys.read(None, shows_changes, read);
        let both = async {
            if !self.is_primary_in_use()
                && let Some(found) = at_standby().await
            {
                return Ok(found);
            }
            let at_primary = |from| async move {
                let found = timeout(self.standbys.deadline / 2, read(from)).await;
                found.unwrap_or(Err(UpstreamError::Timeout))
            };
            match self.read_at_primary(at_primary).await {
                Ok(found) => Ok(found),
                Err(error) => at_standby().await.ok_or(error),
            }
        };
        timeout(self.standbys.deadline, both).await.unwrap_or(Err(UpstreamError::Timeout))
    }

    /// Reads at the primary, and tells the circuit breaker the outcome.
    async fn read_at_primary<T, R>(
        self: &Arc<Self>,
        read: impl Fn(Arc<dyn Upstream>) -> R,
    ) -> Result<Read<T>, UpstreamError>
    where
        R: Future<Output = Result<Read<T>, UpstreamError>>,
    {
        let (begun, start) = (std::time::Instant::now(), self.log.read_start());
        match read(Arc::clone(&self.primary)).await {
            Ok(mut found) => {
                record(&self.breaker, None, begun);
                found.seen = start.stamp(found.seen);
                if !found.seen.is_polled {
                    // Perhaps a new primary, to whose history the standbys need not belong.
                    self.standbys.distrust();
                }
                Ok(found)
            }
            Err(error) => {
                // One slow statement does not show that the database is unavailable: a ping decides.
                if matches!(error, UpstreamError::Timeout) {
                    drop(self.pings.spawn(&(), (), || Arc::clone(self).ping()));
                } else {
                    record(&self.breaker, Some(&error), begun);
                }
                Err(error)
            }
        }
    }

    /// Whether a standby's read may be used. It may be old if the change log cannot be read.
    fn shows(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
        // A clone, because a stamp remembers what was found for one value.
        let currency = self.log.currency(depends_on, &seen.clone(), BootInstant::now());
        currency == Currency::Confirmed
            || (currency == Currency::Unconfirmed && !self.is_primary_in_use())
    }
}
