//! Chooses the server of each read. Genes are read at the standbys in turn, or at the primary if the
//! standby lacks a known change or is not later than what the caller already has. API keys are read
//! at the primary, because a new key is used at once, or at a standby while that is unavailable.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::change::DependsOn;
use super::client::UpstreamClient;
use super::error::UpstreamError;
use super::read::{Read, ReadStamp};
use super::source::Upstream;
use crate::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneId, GenePage, GenePhenotype, GeneSearch,
    GeneSummary, KeyHash, Timestamp,
};

impl UpstreamClient {
    /// See [`Upstream::search`]. The read is later than `since`, which is the time of what the caller
    /// already has.
    pub async fn search(
        self: &Arc<Self>,
        search: &GeneSearch,
        since: Option<Timestamp>,
    ) -> Result<Read<GenePage>, UpstreamError> {
        let depends_on = DependsOn::of_filter(&search.filter);
        self.read_current(depends_on, since, |from| async move { from.search(search).await }).await
    }

    /// See [`Upstream::page`], and [`Self::search`] for `since`.
    pub async fn page(
        self: &Arc<Self>,
        search: &GeneSearch,
        since: Option<Timestamp>,
    ) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        let depends_on = DependsOn::of_filter(&search.filter);
        self.read_current(depends_on, since, |from| async move { from.page(search).await }).await
    }

    /// See [`Upstream::phenotype`], and [`Self::search`] for `since`.
    pub async fn phenotype(
        self: &Arc<Self>,
        id: GeneId,
        since: Option<Timestamp>,
    ) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        let depends_on = DependsOn::Gene(id);
        self.read_current(depends_on, since, |from| async move { from.phenotype(id).await }).await
    }

    /// See [`Upstream::insights`], and [`Self::search`] for `since`.
    pub async fn insights(
        self: &Arc<Self>,
        domain: &DomainName,
        since: Option<Timestamp>,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        let (depends_on, now) = (DependsOn::Domain(domain), self.now());
        self.read_current(depends_on, since, |from| async move { from.insights(domain, now).await })
            .await
    }

    /// See [`Upstream::api_keys`].
    pub async fn api_keys(
        self: &Arc<Self>,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        let read = |from: Arc<dyn Upstream>| async move { from.api_keys(hashes).await };
        let current = |seen: &ReadStamp| {
            hashes.iter().all(|hash| self.is_current(DependsOn::Key(hash), seen))
        };
        if self.standbys.is_empty() {
            return self.at_primary(current, read).await;
        }
        let end = Instant::now() + self.standbys.deadline();
        let at_primary = async {
            let read = |from| with_timeout(self.standbys.deadline() / 2, read(from));
            self.at_primary(current, read).await
        };
        let at_standby = || self.standbys.read(self.now(), None, current, read);
        let both = async {
            if !self.is_primary_in_use()
                && let Some(found) = at_standby().await
            {
                return Ok(found);
            }
            match at_primary.await {
                Ok(found) => Ok(found),
                Err(error) => at_standby().await.ok_or(error),
            }
        };
        timeout_at(end, both).await.unwrap_or(Err(UpstreamError::Timeout))
    }

    async fn read_current<T, R>(
        self: &Arc<Self>,
        depends_on: DependsOn<'_>,
        since: Option<Timestamp>,
        read: impl Fn(Arc<dyn Upstream>) -> R,
    ) -> Result<Read<T>, UpstreamError>
    where
        R: Future<Output = Result<Read<T>, UpstreamError>>,
    {
        let current = |seen: &ReadStamp| self.is_current(depends_on, seen);
        if self.standbys.is_empty() {
            return self.at_primary(current, read).await;
        }
        let end = Instant::now() + self.standbys.deadline();
        if let Some(found) = self.standbys.read(self.now(), since, current, &read).await {
            return Ok(found);
        }
        let remaining = end.saturating_duration_since(Instant::now());
        self.at_primary(current, |from| with_timeout(remaining, read(from))).await
    }

    /// Reads at the primary. If its URL leads to a standby, the result must be current too, with one
    /// retry in case a change became known during the read.
    async fn at_primary<T, R>(
        self: &Arc<Self>,
        current: impl Fn(&ReadStamp) -> bool,
        read: impl Fn(Arc<dyn Upstream>) -> R,
    ) -> Result<Read<T>, UpstreamError>
    where
        R: Future<Output = Result<Read<T>, UpstreamError>>,
    {
        for _ in 0..2 {
            let found = self.tracked(read(Arc::clone(&self.upstream))).await?;
            if !self.is_standby.load(Ordering::Acquire) || current(&found.seen) {
                return Ok(found);
            }
        }
        Err(UpstreamError::Behind)
    }
}

async fn with_timeout<T>(
    limit: Duration,
    read: impl Future<Output = Result<T, UpstreamError>>,
) -> Result<T, UpstreamError> {
    timeout(limit, read).await.unwrap_or(Err(UpstreamError::Timeout))
}
