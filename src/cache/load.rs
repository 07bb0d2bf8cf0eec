//! Loads entries that the local cache cannot serve: from Redis, else by a fetch, else a stale entry
//! while the upstream fails or reads are shed.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

use super::entry::Entry;
use super::fetch::Fetcher;
use super::freshness::Freshness;
use super::read::{NotRead, UpstreamReader};
use super::read_limiter::{Overloaded, Priority, ReadLimiter};
use super::reply::{ReadError, Source};
use super::serve_policy::ServePolicy;
use super::shared::SharedCache;
use crate::config::Config;
use crate::ops::Metrics;
use crate::registry::Request;
use crate::upstream::{BootInstant, UpstreamError};

/// Pause after a failed background refresh before the next one of the same request.
const REFRESH_BACKOFF: Duration = Duration::from_secs(2);

/// Maximum number of requests whose refresh is paused.
const MAX_BACKOFFS: u64 = 10_000;

/// Loads and refreshes entries.
pub(super) struct Loader {
    policy: Arc<ServePolicy>,
    fetcher: Fetcher,
    refresh_backoff: Cache<Request, ()>,
}

impl Loader {
    pub(super) fn new(
        config: &Config,
        policy: Arc<ServePolicy>,
        shared: Option<Arc<SharedCache>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let max_reads = config.shed.max_reads(config.upstream.pool_size);
        let limiter = ReadLimiter::new(
            max_reads,
            config.shed.queue,
            Duration::from_millis(config.shed.wait_ms),
            Duration::from_millis(config.upstream.deadline_ms),
            metrics.shed(),
        );
        let fetcher = Fetcher {
            policy: Arc::clone(&policy),
            shared,
            reader: UpstreamReader { policy: Arc::clone(&policy), limiter },
            max_wait: Duration::from_millis(config.upstream.deadline_ms) / 2,
            metrics,
        };
        let refresh_backoff =
            Cache::builder().max_capacity(MAX_BACKOFFS).time_to_live(REFRESH_BACKOFF).build();
        Self { policy, fetcher, refresh_backoff }
    }

    /// Loads the entry for a request that waits.
    pub(super) async fn load(&self, request: &Request) -> Result<(Arc<Entry>, Source), ReadError> {
        let policy = &self.policy;
        // Another load may have ended between the caller's check and the start of this one.
        if let Some(entry) = policy.local.get(request)
            && policy.is_servable(request, &entry)
        {
            return Ok((entry, Source::Local));
        }
        if policy.is_known_absent(request) {
            return Err(ReadError::NotFound);
        }
        let shared = self.shared_entry(request).await;
        if let Some(entry) = &shared
            && policy.is_servable(request, entry)
        {
            return Ok((policy.local.put(request, entry), Source::Shared));
        }
        // An unavailable database is tried only if there is nothing else to serve.
        if !policy.upstream.is_in_use()
            && let Some(entry) = self.stale_fallback(request, shared.clone())
        {
            return Ok((entry, Source::StaleIfError));
        }
        let is_outdated = |entry: &Arc<Entry>| policy.is_outdated(request, &entry.seen);
        let has_outdated =
            policy.local.get(request).as_ref().or(shared.as_ref()).is_some_and(is_outdated);
        let priority = if has_outdated { Priority::Outdated } else { Priority::Foreground };
        match self.fetcher.fetch(request, shared.as_deref(), priority).await {
            Ok(found) => found.ok_or(ReadError::NotFound),
            Err(error) => self.fall_back(request, shared, error).await,
        }
    }

    /// A stale entry instead of a failed read, if one may be served.
    async fn fall_back(
        &self,
        request: &Request,
        shared: Option<Arc<Entry>>,
        error: NotRead,
    ) -> Result<(Arc<Entry>, Source), ReadError> {
        let policy = &self.policy;
        let (source, error, answers) = match error {
            // The row is invalid now; a stale entry would hide that.
            NotRead::Failed(error @ UpstreamError::Contract(_)) => {
                return Err(ReadError::Upstream(Arc::new(error)));
            }
            NotRead::Failed(error) => {
                let answers = policy.upstream.answers(&error).await;
                // It answers, and not in time: it is busy, or the rows are locked.
                let is_busy = answers && matches!(error, UpstreamError::Timeout);
                let error = (!is_busy).then(|| Arc::new(error));
                (Source::StaleIfError, error, answers)
            }
            NotRead::Overloaded(Overloaded) => (Source::StaleIfBusy, None, true),
        };
        match self.stale_fallback(request, shared) {
            // An entry that is known to be outdated is not served while the database answers.
            Some(entry) if !answers || !policy.is_outdated(request, &entry.seen) => {
                Ok((entry, source))
            }
            Some(_) => Err(ReadError::Overloaded),
            None if policy.was_absent(request) => Err(ReadError::NotFound),
            None => Err(error.map_or(ReadError::Overloaded, ReadError::Upstream)),
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
        let fetched = self.fetcher.fetch(request, shared.as_deref(), Priority::Background).await;
        if let Err(error) = fetched {
            self.refresh_backoff.insert(request.clone(), ());
            tracing::debug!(%error, "the background refresh of a stale entry failed");
        }
    }

    async fn shared_entry(&self, request: &Request) -> Option<Arc<Entry>> {
        let entry = self.fetcher.shared.as_ref()?.get(request).await?;
        Some(Arc::new(entry))
    }

    /// The newest entry that may be served while the upstream fails.
    fn stale_fallback(&self, request: &Request, shared: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        let policy = &self.policy;
        let newest = [policy.local.get(request), shared]
            .into_iter()
            .flatten()
            .max_by_key(|entry| entry.seen.order())?;
        let is_servable = policy.classify(request, &newest, BootInstant::now())
            != Freshness::Expired
            && !policy.local.is_deleted(request, &newest);
        // Kept locally, so that no older entry is served after it.
        is_servable.then(|| policy.local.put(request, &newest))
    }
}
