//! Loads: how an answer that is not at hand is come by. One replica reads for all.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::entry::Entry;
use super::freshness::{Ages, Freshness};
use super::local::LocalCache;
use super::read::ReadOutcome;
use super::read_limiter::{Overloaded, Priority, ReadLimiter};
use super::read_through::ReadError;
use super::shared::{Lease, LeaseAttempt, SharedCache, Waited};
use crate::config::Config;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::{Request, Timestamp};
use crate::upstream::{DependsOn, ReadStamp, UpstreamClient, UpstreamError};

/// Before another try to take a lease that ended with something too old.
const RETRY_INTERVAL: Duration = Duration::from_millis(25);

/// After a refresh in vain, and how many of these are remembered.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_BACKOFFS: u64 = 10_000;

/// Where a load, which may serve many requests, found its answer.
#[derive(Debug, Clone)]
pub(super) enum LoadOutcome {
    /// In this process, where a load before this one has just put it.
    Local(Arc<Entry>),
    /// In Redis, where another replica has put it.
    Shared(Arc<Entry>),
    /// In the upstream.
    Upstream(Arc<Entry>),
    /// An older one, because the upstream was tried in vain.
    Stale(Arc<Entry>),
    /// An older one, because there is too much to read already.
    StaleIfBusy(Arc<Entry>),
}

/// Why nothing was read.
#[derive(Debug, Error)]
pub(super) enum NotRead {
    /// The upstream was tried in vain.
    #[error(transparent)]
    Failed(#[from] UpstreamError),
    /// The upstream was not tried.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
}

/// What reading an answer gave: it, or that there is no such thing.
type FetchResult = Result<Option<LoadOutcome>, NotRead>;

/// Comes by answers.
pub(super) struct Loader {
    pub(super) local: LocalCache,
    shared: Option<SharedCache>,
    pub(super) upstream: Arc<UpstreamClient>,
    pub(super) search: Ages,
    phenotype: Ages,
    insights: Ages,
    deadline: Duration,
    pub(super) read_limiter: ReadLimiter,
    refresh_backoff: Cache<Request, ()>,
    metrics: Arc<Metrics>,
}

impl Loader {
    pub(super) fn new(
        config: &Config,
        shared: Option<SharedCache>,
        upstream: Arc<UpstreamClient>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let cache = &config.cache;
        let [search, phenotype, insights] =
            [cache.search, cache.phenotype, cache.insights].map(Ages::from);
        let longest = search.if_error.max(phenotype.if_error).max(insights.if_error);
        let (most, absent) = (cache.local_max_bytes, cache.not_found());
        Self {
            local: LocalCache::new(most, longest, absent, search.fresh),
            shared,
            upstream,
            search,
            phenotype,
            insights,
            deadline: config.upstream.deadline(),
            read_limiter: read_limiter(config, &metrics),
            refresh_backoff: Cache::builder()
                .max_capacity(MAX_BACKOFFS)
                .time_to_live(PAUSE)
                .build(),
            metrics,
        }
    }

    /// The ages of an answer.
    pub(super) fn ages(&self, request: &Request, entry: &Entry) -> Ages {
        self.kind(request).shortened(entry.ttl_jitter)
    }

    fn kind(&self, request: &Request) -> &Ages {
        match request {
            Request::Search(_) => &self.search,
            Request::Phenotype(_) => &self.phenotype,
            Request::Insights(_) => &self.insights,
        }
    }

    /// What may be done with an answer, by its age.
    pub(super) fn classify(&self, request: &Request, entry: &Entry) -> Freshness {
        self.ages(request, entry).classify(self.age(&entry.seen))
    }

    /// Time since a read. One from the future, by a clock that runs ahead, has no age yet.
    pub(super) fn age(&self, seen: &ReadStamp) -> Duration {
        let age = self.upstream.now().duration_since(seen.read_at);
        Duration::try_from(age).unwrap_or_default()
    }

    /// Whether what was read is current.
    pub(super) fn is_current(&self, request: &Request, seen: &ReadStamp) -> bool {
        let concern = match request {
            Request::Phenotype(id) => DependsOn::Gene(*id),
            Request::Insights(domain) => DependsOn::Domain(domain),
            Request::Search(search) => DependsOn::of_filter(&search.filter),
        };
        self.upstream.is_current(concern, seen)
    }

    /// Whether it is known, and still current, that there is no such thing.
    pub(super) fn is_known_absent(&self, request: &Request) -> bool {
        self.local.not_found(request).is_some_and(|seen| self.is_current(request, &seen))
    }

    fn is_servable(&self, request: &Request, entry: &Entry) -> bool {
        self.is_current_entry(request, entry, Freshness::Stale)
    }

    fn is_fresh(&self, request: &Request, entry: &Entry) -> bool {
        self.is_current_entry(request, entry, Freshness::Fresh)
    }

    /// Whether an answer is current and at worst `worst`, and its gene was not seen to be gone.
    fn is_current_entry(&self, request: &Request, entry: &Entry, worst: Freshness) -> bool {
        self.classify(request, entry) <= worst
            && self.is_current(request, &entry.seen)
            && !self.local.is_gone(request, entry)
    }

    /// The answer for somebody who waits: from Redis if it may be sent, else read.
    pub(super) async fn load(&self, request: &Request) -> Result<LoadOutcome, ReadError> {
        // Between the look before this and the beginning of the load, another may have ended.
        if let Some(entry) = self.local.get(request)
            && self.is_servable(request, &entry)
        {
            return Ok(LoadOutcome::Local(entry));
        }
        if self.is_known_absent(request) {
            return Err(ReadError::NotFound);
        }
        let shared = self.shared_entry(request).await;
        if let Some(entry) = &shared
            && self.is_servable(request, entry)
        {
            let entry = self.local.put(request, entry);
            return Ok(LoadOutcome::Shared(entry));
        }
        // Nobody waits for a database known to be away, unless there is nothing else to send.
        if !self.upstream.is_in_use()
            && let Some(entry) = self.stale_fallback(request, shared.clone())
        {
            return Ok(LoadOutcome::Stale(entry));
        }
        match self.fetch(request, shared.as_deref(), Priority::Foreground).await {
            Ok(Some(loaded)) => Ok(loaded),
            Ok(None) => Err(ReadError::NotFound),
            // Not trouble with the upstream, which an older answer could tide over.
            Err(NotRead::Failed(error @ UpstreamError::Contract(_))) => {
                Err(ReadError::Upstream(Arc::new(error)))
            }
            Err(NotRead::Failed(error)) => match self.stale_fallback(request, shared) {
                Some(entry) => Ok(LoadOutcome::Stale(entry)),
                None => Err(ReadError::Upstream(Arc::new(error))),
            },
            // The upstream is there: what is known to be out of date is not sent.
            Err(NotRead::Overloaded(Overloaded)) => {
                let older = self.stale_fallback(request, shared);
                let current = older.filter(|entry| self.is_current(request, &entry.seen));
                current.map(LoadOutcome::StaleIfBusy).ok_or(ReadError::Overloaded)
            }
        }
    }

    /// Whether there is any use in reading a stale answer again just now.
    pub(super) fn may_refresh(&self, request: &Request) -> bool {
        self.upstream.is_in_use() && !self.refresh_backoff.contains_key(request)
    }

    /// Brings the answer up to date; nobody waits.
    pub(super) async fn refresh(&self, request: &Request) {
        let shared = self.shared_entry(request).await;
        if let Some(entry) = &shared
            && self.is_fresh(request, entry)
        {
            self.local.put(request, entry);
            return;
        }
        if let Err(error) = self.fetch(request, shared.as_deref(), Priority::Background).await {
            self.refresh_backoff.insert(request.clone(), ());
            tracing::debug!(%error, "a stale answer could not be read again");
        }
    }

    async fn shared_entry(&self, request: &Request) -> Option<Arc<Entry>> {
        let entry = self.shared.as_ref()?.get(request).await?;
        Some(Arc::new(entry))
    }

    /// The newest answer that may be sent while the upstream fails.
    fn stale_fallback(&self, request: &Request, shared: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        let newest = [self.local.get(request), shared]
            .into_iter()
            .flatten()
            .max_by_key(|entry| entry.seen.read_at)?;
        let may_be_sent = self.classify(request, &newest) != Freshness::Expired
            && !self.local.is_gone(request, &newest);
        // Kept, so that nothing older is ever sent after it.
        may_be_sent.then(|| self.local.put(request, &newest))
    }

    /// Reads the answer, or waits for the replica that does. `known` is what Redis has, as far as
    /// we know.
    async fn fetch(
        &self,
        request: &Request,
        known: Option<&Entry>,
        priority: Priority,
    ) -> FetchResult {
        let since = self.local.newest(request).max(known.map(|entry| entry.seen.read_at));
        let fetch_and_publish = |lease| self.fetch_and_publish(request, since, lease, priority);
        let Some(shared) = &self.shared else { return fetch_and_publish(None).await };
        let deadline = Instant::now() + self.deadline / 2;
        let is_fresh = |entry: &Entry| self.is_fresh(request, entry);
        let found = |entry| {
            let entry = self.local.put(request, &Arc::new(entry));
            Ok(Some(LoadOutcome::Shared(entry)))
        };
        loop {
            let token = match shared.acquire_lease(request, known).await {
                LeaseAttempt::Ours { lease, has_news } => {
                    // The one before us has published between our look and our claim.
                    if has_news && let Some(entry) = shared.get(request).await.filter(is_fresh) {
                        shared.release_lease(&lease).await;
                        return found(entry);
                    }
                    return fetch_and_publish(Some(lease)).await;
                }
                LeaseAttempt::NoLeases => return fetch_and_publish(None).await,
                LeaseAttempt::Theirs(token) => token,
            };
            self.metrics.count(CacheEvent::Waited);
            match shared.wait(request, &token, deadline, is_fresh).await {
                Waited::Entry(entry) => return found(entry),
                Waited::Absent(seen) if self.is_current(request, &seen) => {
                    self.local.put_absent(request, seen);
                    return Ok(None);
                }
                // Read before a change that is known here.
                Waited::Absent(_) if Instant::now() < deadline => sleep(RETRY_INTERVAL).await,
                Waited::Absent(_) => return fetch_and_publish(None).await,
                // Rather than what is known to be out of date.
                Waited::Failed if self.upstream.is_in_use() && self.local.knows(request) => {}
                Waited::Failed => return Err(UpstreamError::Elsewhere.into()),
                Waited::GaveUp => return fetch_and_publish(None).await,
                Waited::LeaseEnded => {}
            }
        }
    }

    /// Reads from the upstream, and lets everybody know.
    async fn fetch_and_publish(
        &self,
        request: &Request,
        since: Option<Timestamp>,
        lease: Option<Lease>,
        priority: Priority,
    ) -> FetchResult {
        let read = match self.read(request, since, priority).await {
            Ok(found) => Ok(found),
            Err(NotRead::Failed(error)) => Err(error),
            Err(NotRead::Overloaded(busy)) => {
                // Another replica may have room for it.
                if let (Some(shared), Some(lease)) = (&self.shared, &lease) {
                    shared.release_lease(lease).await;
                }
                return Err(busy.into());
            }
        };
        self.metrics.count(CacheEvent::Load { failed: read.is_err() });
        match read {
            Ok(ReadOutcome::Entry(entry)) => {
                let entry = self.local.put(request, &Arc::new(entry));
                if let Some(shared) = &self.shared {
                    let lifetime = self.ages(request, &entry).if_error;
                    let left = lifetime.saturating_sub(self.age(&entry.seen));
                    shared.publish(lease, request, &entry, left).await;
                }
                Ok(Some(LoadOutcome::Upstream(entry)))
            }
            Ok(ReadOutcome::Nothing(seen)) => {
                if let Some(shared) = &self.shared {
                    shared.publish_absent(lease, request, &seen).await;
                }
                self.local.put_absent(request, seen);
                Ok(None)
            }
            Err(error) => {
                if let Some(shared) = &self.shared {
                    // Known to be away from here; others may have their own way to it.
                    let speaks_for_all = self.upstream.is_in_use();
                    shared.publish_failure(lease, speaks_for_all).await;
                }
                Err(error.into())
            }
        }
    }
}

fn read_limiter(config: &Config, metrics: &Metrics) -> ReadLimiter {
    let misses = config.shed.misses(config.upstream.pool_size);
    ReadLimiter::new(misses, config.shed.queue, config.shed.wait(), metrics.shed())
}
