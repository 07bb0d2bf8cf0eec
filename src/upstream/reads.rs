//! Where things are read. Answers: at a standby, in turn; and at the primary where that lacks a
//! change that is known, or is no later than something that the caller has already. API keys: at
//! the primary, for a key is used as soon as it was made; and at a standby while that is away.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::change_log::DependsOn;
use super::watched::UpstreamClient;
use super::{Read, ReadStamp, Upstream, UpstreamError};
use crate::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneId, GenePage, GenePhenotype, GeneSearch,
    GeneSummary, KeyHash, Timestamp,
};

impl UpstreamClient {
    /// See [`Upstream::search`]. Nothing is read as it was at the time `since` or before, for that
    /// is what the caller has.
    pub async fn search(
        self: &Arc<Self>,
        search: &GeneSearch,
        since: Option<Timestamp>,
    ) -> Result<Read<GenePage>, UpstreamError> {
        let concern = DependsOn::of_filter(&search.filter);
        self.answer(concern, since, |from| async move { from.search(search).await }).await
    }

    /// See [`Upstream::page`], and [`Self::search`] for `since`.
    pub async fn page(
        self: &Arc<Self>,
        search: &GeneSearch,
        since: Option<Timestamp>,
    ) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        let concern = DependsOn::of_filter(&search.filter);
        self.answer(concern, since, |from| async move { from.page(search).await }).await
    }

    /// See [`Upstream::phenotype`], and [`Self::search`] for `since`.
    pub async fn phenotype(
        self: &Arc<Self>,
        id: GeneId,
        since: Option<Timestamp>,
    ) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        let concern = DependsOn::Gene(id);
        self.answer(concern, since, |from| async move { from.phenotype(id).await }).await
    }

    /// See [`Upstream::insights`], and [`Self::search`] for `since`.
    pub async fn insights(
        self: &Arc<Self>,
        domain: &DomainName,
        since: Option<Timestamp>,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        let (concern, now) = (DependsOn::Domain(domain), self.now());
        self.answer(concern, since, |from| async move { from.insights(domain, now).await }).await
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
            let read = |from| in_time(self.standbys.deadline() / 2, read(from));
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

    async fn answer<T, R>(
        self: &Arc<Self>,
        concern: DependsOn<'_>,
        since: Option<Timestamp>,
        read: impl Fn(Arc<dyn Upstream>) -> R,
    ) -> Result<Read<T>, UpstreamError>
    where
        R: Future<Output = Result<Read<T>, UpstreamError>>,
    {
        let current = |seen: &ReadStamp| self.is_current(concern, seen);
        if self.standbys.is_empty() {
            return self.at_primary(current, read).await;
        }
        let end = Instant::now() + self.standbys.deadline();
        if let Some(found) = self.standbys.read(self.now(), since, current, &read).await {
            return Ok(found);
        }
        let left = end.saturating_duration_since(Instant::now());
        self.at_primary(current, |from| in_time(left, read(from))).await
    }

    /// Where the primary's URL leads to a standby, what is read there must be current too. It is
    /// not a second time after it was read while the news came.
    async fn at_primary<T, R>(
        self: &Arc<Self>,
        current: impl Fn(&ReadStamp) -> bool,
        read: impl Fn(Arc<dyn Upstream>) -> R,
    ) -> Result<Read<T>, UpstreamError>
    where
        R: Future<Output = Result<Read<T>, UpstreamError>>,
    {
        for _ in 0..2 {
            let found = self.guarded(read(Arc::clone(&self.upstream))).await?;
            if !self.only_follows.load(Ordering::Acquire) || current(&found.seen) {
                return Ok(found);
            }
        }
        Err(UpstreamError::Behind)
    }
}

async fn in_time<T>(
    bound: Duration,
    read: impl Future<Output = Result<T, UpstreamError>>,
) -> Result<T, UpstreamError> {
    timeout(bound, read).await.unwrap_or(Err(UpstreamError::Timeout))
}
