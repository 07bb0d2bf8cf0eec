//! Loads entries that the local cache cannot serve: from Redis, else by a fetch, else a stale entry
//! while the upstream fails or reads are shed.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

use super::entry::Entry;
use super::read_limiter::{Priority, ReadLimiter};
use super::reply::{EntryResult, ReadError, Source};
use super::serve_policy::{Freshness, ServePolicy};
use super::shared::SharedCache;
use crate::config::Config;
use crate::ops::{Metrics, error_chain};
use crate::registry::Request;
use crate::sync::SingleFlight;
use crate::upstream::{BootInstant, Currency, ReadStart, UpstreamClient, UpstreamError};

/// Pause after a failed background refresh before the next one of the same request.
const REFRESH_BACKOFF: Duration = Duration::from_secs(2);

/// Maximum number of requests whose refresh is paused.
const MAX_BACKOFFS: u64 = 10_000;

/// Loads and refreshes entries: the state of the whole cache.
pub(super) struct Loader {
    pub(super) policy: ServePolicy,
    pub(super) shared: Option<Arc<SharedCache>>,
    pub(super) limiter: ReadLimiter,
    /// Maximum wait for another replica.
    pub(super) max_wait: Duration,
    pub(super) metrics: Arc<Metrics>,
    /// Loads that requests wait for.
    pub(super) loads: SingleFlight<Request, EntryResult, ReadStart>,
    /// Background refreshes.
    pub(super) refreshes: SingleFlight<Request, ()>,
    refresh_backoff: Cache<Request, ()>,
}

impl Loader {
    pub(super) fn new(
        config: &Config,
        shared: Option<Arc<SharedCache>>,
        upstream: Arc<UpstreamClient>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let deadline = Duration::from_millis(config.upstream.deadline_ms);
        let limiter = ReadLimiter::new(
            config.shed.max_reads(config.upstream.pool_size),
            config.shed.queue,
            Duration::from_millis(config.shed.wait_ms),
            deadline,
            metrics.shed(),
        );
        Self {
            policy: ServePolicy::new(&config.cache, upstream),
            shared,
            limiter,
            max_wait: deadline / 2,
            metrics,
            loads: SingleFlight::new("cache_loads"),
            refreshes: SingleFlight::new("cache_refreshes"),
            refresh_backoff: Cache::builder()
                .max_capacity(MAX_BACKOFFS)
                .time_to_live(REFRESH_BACKOFF)
                .build(),
        }
    }

    /// Loads the entry for a request that waits.
    pub(super) async fn load(&self, request: &Request) -> EntryResult {
        let policy = &self.policy;
        // Another load may have ended between the caller's check and the start of this one.
        let local = policy.local.get(request);
        if let Some(entry) = local.filter(|entry| policy.is_servable(request, entry)) {
            return Ok((entry, Source::Local));
        }
        if policy.absence(request) == Some(Currency::Confirmed) {
            return Err(ReadError::NotFound);
        }
        let shared = self.shared_entry(request).await;
        if let Some(entry) = &shared
            && policy.is_servable(request, entry)
        {
            return self.keep_shared(request, entry);
        }
        // An unavailable database is tried only if there is nothing else to serve.
        if !policy.upstream.is_in_use()
            && let Some(entry) = self.stale_fallback(request, shared.as_ref())
        {
            return Ok((entry, Source::StaleIfError));
        }
        let cached = policy.local.get(request).or_else(|| shared.clone());
        let priority = match cached {
            Some(entry) if policy.is_outdated(request, &entry.seen) => Priority::Outdated,
            _ => Priority::Foreground,
        };
        match self.fetch(request, shared.as_deref(), priority).await {
            Err(error) => self.fall_back(request, shared, error).await,
            found => found,
        }
    }

    /// A stale entry instead of a failed read, if one may be served.
    async fn fall_back(
        &self,
        request: &Request,
        shared: Option<Arc<Entry>>,
        error: ReadError,
    ) -> EntryResult {
        let policy = &self.policy;
        let (source, answers, error) = match error {
            ReadError::Overloaded => (Source::StaleIfBusy, true, error),
            // If the row is invalid now, a stale entry would hide that.
            ReadError::Upstream(ref cause) if !matches!(**cause, UpstreamError::Contract(_)) => {
                let answers = policy.upstream.answers(cause).await;
                // It answers, and not in time: it is busy, or the rows are locked.
                let is_busy = answers && matches!(**cause, UpstreamError::Timeout);
                let error = if is_busy { ReadError::Overloaded } else { error };
                (Source::StaleIfError, answers, error)
            }
            _ => return Err(error),
        };
        match self.stale_fallback(request, shared.as_ref()) {
            // An entry that is known to be outdated is not served while the database answers.
            Some(entry) if !answers || !policy.is_outdated(request, &entry.seen) => {
                Ok((entry, source))
            }
            Some(_) => Err(ReadError::Overloaded),
            None => Err(match policy.absence(request) {
                Some(Currency::Confirmed | Currency::Unconfirmed) => ReadError::NotFound,
                Some(Currency::Outdated) | None => error,
            }),
        }
    }

    /// Whether a background refresh may succeed now.
    pub(super) fn may_refresh(&self, request: &Request) -> bool {
        self.policy.upstream.is_in_use() && !self.refresh_backoff.contains_key(request)
    }

    /// Refreshes the entry in the background.
    pub(super) async fn refresh(&self, request: &Request) {
        let shared = self.shared_entry(request).await;
        if let Some(entry) = &shared
            && self.policy.is_fresh(request, entry)
        {
            self.policy.local.put(request, entry);
            return;
        }
        match self.fetch(request, shared.as_deref(), Priority::Background).await {
            Ok(_) | Err(ReadError::NotFound) => {}
            Err(error) => {
                self.refresh_backoff.insert(request.clone(), ());
                let error = error_chain(&error);
                tracing::debug!(error, "the background refresh of a stale entry failed");
            }
        }
    }

    async fn shared_entry(&self, request: &Request) -> Option<Arc<Entry>> {
        self.shared.as_ref()?.get(request).await
    }

    pub(super) fn keep_shared(&self, request: &Request, entry: &Arc<Entry>) -> EntryResult {
        Ok((self.policy.local.put(request, entry), Source::Shared))
    }

    /// The newest entry that may be served while the upstream fails.
    fn stale_fallback(&self, request: &Request, shared: Option<&Arc<Entry>>) -> Option<Arc<Entry>> {
        let policy = &self.policy;
        let local = policy.local.get(request);
        let newest = local.iter().chain(shared).max_by_key(|entry| entry.seen.order())?;
        let freshness = policy.classify(request, newest, BootInstant::now());
        let is_servable =
            freshness != Freshness::Expired && !policy.local.is_deleted(request, newest);
        // Kept locally, so that no older entry is served after it.
        is_servable.then(|| policy.local.put(request, newest))
    }

    /// Publishes the numbers of a domain's arena as metrics.
    pub(super) fn publish_arena(&self, request: &Request, entry: &Entry) {
        let Request::Insights(domain) = request else { return };
        let read_at = entry.seen.read_at.as_microsecond() as f64 / 1e6;
        self.metrics.domain(domain.as_str(), &entry.body, entry.seen.began.elapsed(), read_at);
    }
}
