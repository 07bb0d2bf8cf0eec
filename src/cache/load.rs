//! The path of a cache miss. Loads entries that the local cache cannot serve: from Redis, else by a
//! fetch, else a stale entry while the upstream fails or reads are shed.
//!
//! A fetch takes the fleet-wide lease and queries the database, or waits for the replica that holds it.
//! Without Redis, or where the holder began too early for this request, this replica queries it itself.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::{Instant, sleep};

use super::broken_rows::BrokenRows;
use super::entry::Entry;
use super::lease::{Lease, LeaseAttempt, LeaseOutcome};
use super::read_limiter::{Priority, ReadLimiter};
use super::reply::{CountedResult, EntryResult, ReadError, Source};
use super::serve_policy::{Freshness, ServePolicy};
use super::shared::SharedCache;
use crate::ops::{CacheEvent, Metrics, error_chain};
use crate::registry::{GeneFilter, Request};
use crate::sync::SingleFlight;
use crate::upstream::{BootInstant, Currency, ReadStart, UpstreamError};

/// Pause before another attempt to take a lease whose holder read an outdated state.
const RETRY_INTERVAL: Duration = Duration::from_millis(25);

/// Maximum number of reads of one load.
const MAX_READS: usize = 2;

/// Loads and refreshes entries: the state of the whole cache.
pub(super) struct Loader {
    pub(super) policy: ServePolicy,
    pub(super) shared: Option<Arc<SharedCache>>,
    pub(super) limiter: ReadLimiter,
    /// Maximum wait for another replica.
    pub(super) max_wait: Duration,
    pub(super) metrics: Arc<Metrics>,
    /// The genes that the loaded counts leave out.
    pub(super) broken_rows: BrokenRows,
    /// Loads that requests wait for.
    pub(super) loads: SingleFlight<Request, EntryResult, ReadStart>,
    /// Reads of counts that reads of pages wait for.
    pub(super) counts: SingleFlight<(GeneFilter, Priority, bool), CountedResult, ReadStart>,
    /// Background refreshes.
    pub(super) refreshes: SingleFlight<Request, ()>,
    /// Requests whose refresh has failed just now.
    pub(super) refresh_backoff: Cache<Request, ()>,
}

impl Loader {
    /// Loads the entry for a request that waits.
    pub(super) async fn load(self: &Arc<Self>, request: &Request) -> EntryResult {
        let policy = &self.policy;
        // Another load may have ended between the caller's check and the start of this one.
        let local = policy.local.entries.get(request);
        if let Some(entry) = local.filter(|entry| policy.is_servable(request, entry)) {
            return Ok((entry, Source::Local));
        }
        if policy.absence(request) == Some(Currency::Confirmed) {
            return Err(ReadError::NotFound);
        }
        let shared = self.shared_entry(request).await;
        if let Some(entry) = &shared
            && policy.is_servable(request, entry)
            && let Some(kept) = self.keep_shared(request, entry)
        {
            return Ok(kept);
        }
        // An unavailable database is tried only if there is nothing else to serve.
        if !policy.upstream.is_in_use()
            && let Some(entry) = self.stale_fallback(request, shared.as_ref())
        {
            return Ok((entry, Source::StaleIfError));
        }
        let cached = policy.local.entries.get(request).or_else(|| shared.clone());
        let is_outdated = cached.is_some_and(|entry| policy.is_outdated(request, &entry.seen));
        let priority = if is_outdated { Priority::Outdated } else { Priority::Foreground };
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

    /// Refreshes the entry in the background.
    pub(super) async fn refresh(self: &Arc<Self>, request: &Request) {
        match self.load_fresh(request, Priority::Background).await {
            Ok(_) | Err(ReadError::NotFound) => {}
            Err(error) => {
                self.refresh_backoff.insert(request.clone(), ());
                tracing::debug!(error = error_chain(&error), "a background refresh failed");
            }
        }
    }

    /// The fresh entry in Redis, or a new one.
    pub(super) async fn load_fresh(
        self: &Arc<Self>,
        request: &Request,
        priority: Priority,
    ) -> EntryResult {
        let shared = self.shared_entry(request).await;
        if let Some(entry) = &shared
            && self.policy.is_fresh(request, entry)
            && let Some(kept) = self.policy.local.put(request, entry)
            && self.policy.is_fresh(request, &kept)
        {
            return Ok((kept, Source::Shared));
        }
        self.fetch(request, shared.as_deref(), priority).await
    }

    /// The entry in Redis.
    async fn shared_entry(&self, request: &Request) -> Option<Arc<Entry>> {
        self.shared.as_ref()?.get(request).await
    }

    /// Keeps an entry from Redis locally, unless the one there may show a later state. Returns the one
    /// that is there then, if it may be served.
    fn keep_shared(&self, request: &Request, entry: &Arc<Entry>) -> Option<(Arc<Entry>, Source)> {
        let kept = self.policy.local.put(request, entry)?;
        self.policy.is_servable(request, &kept).then_some((kept, Source::Shared))
    }

    /// The newest entry that may be served while the upstream fails.
    fn stale_fallback(&self, request: &Request, shared: Option<&Arc<Entry>>) -> Option<Arc<Entry>> {
        let policy = &self.policy;
        let (local, now) = (policy.local.entries.get(request), BootInstant::now());
        let is_servable =
            |entry: &&Arc<Entry>| policy.classify(request, entry, now) != Freshness::Expired;
        let servable = local.iter().chain(shared).filter(is_servable);
        let newest = servable.max_by_key(|entry| entry.seen.order())?;
        // Kept locally, so that no older entry is served after it.
        policy.local.put(request, newest)
    }

    /// Publishes the numbers of a domain's arena as metrics.
    pub(super) fn publish_arena(&self, request: &Request, entry: &Entry) {
        let Request::Insights(domain) = request else { return };
        let read_at = entry.seen.read_at.as_microsecond() as f64 / 1e6;
        self.metrics.domain(domain.as_str(), &entry.body, entry.seen.began.elapsed(), read_at);
    }

    /// Fetches the entry and publishes it to both caches. `known` is the entry in Redis, as far as
    /// it was read.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        request: &Request,
        known: Option<&Entry>,
        priority: Priority,
    ) -> EntryResult {
        let (policy, deadline) = (&self.policy, Instant::now() + self.max_wait);
        let is_fresh = |entry: &Arc<Entry>| policy.is_fresh(request, entry);
        while let Some(shared) = &self.shared
            && let Some(attempt) = shared.acquire_lease(request, known).await
        {
            let held = match attempt {
                LeaseAttempt::Acquired(lease) => {
                    // The previous holder may have published it after `known` was read.
                    if lease.has_other_entry
                        && let Some(entry) = shared.get(request).await.filter(is_fresh)
                        && let Some(kept) = self.keep_shared(request, &entry)
                    {
                        shared.release(Some(&lease), None).await;
                        return Ok(kept);
                    }
                    return self.fetch_and_publish(request, known, Some(lease), priority).await;
                }
                LeaseAttempt::Held(lease) => lease,
            };
            match shared.wait(request, &held, deadline, is_fresh).await {
                Some(LeaseOutcome::Entry(entry)) => match self.keep_shared(request, &entry) {
                    Some(kept) => return Ok(kept),
                    None => break,
                },
                Some(LeaseOutcome::Absent(seen)) if !policy.is_outdated(request, &seen) => {
                    if policy.local.put_absent(request, seen).is_none() {
                        return Err(ReadError::NotFound);
                    }
                    break;
                }
                // The holder read before a change that is known here.
                Some(LeaseOutcome::Absent(_)) if Instant::now() < deadline => {
                    sleep(RETRY_INTERVAL).await;
                }
                Some(LeaseOutcome::Absent(_)) | None => break,
                // Without a retry, an entry that is known to be outdated would be served.
                Some(LeaseOutcome::Failed(_))
                    if policy.upstream.is_in_use() && policy.local.newest(request).is_some() => {}
                Some(LeaseOutcome::Failed(error)) => return Err(error.into()),
                Some(LeaseOutcome::LeaseEnded) => {}
            }
        }
        self.fetch_and_publish(request, known, None, priority).await
    }

    /// Reads from the upstream, and publishes the result to both caches: to Redis in the background. If an
    /// entry that may show a later state is known and may not be served, a second read decides, which
    /// surely shows more than both, since it begins later.
    async fn fetch_and_publish(
        self: &Arc<Self>,
        request: &Request,
        known: Option<&Entry>,
        mut lease: Option<Lease>,
        priority: Priority,
    ) -> EntryResult {
        let policy = &self.policy;
        for _ in 0..MAX_READS {
            let since = policy.local.newest(request).max(known.map(|entry| entry.seen.order()));
            let read = match self.read(request, since, priority).await {
                Ok(read) => read,
                Err(error) => return Err(self.failed(lease.as_ref(), error).await),
            };
            self.metrics.count(CacheEvent::Loaded);
            let own =
                read.value.map(|body| Entry::new(request, body, read.seen.clone())).map(Arc::new);
            let kept = match &own {
                Some(entry) => policy.local.put(request, entry),
                None => policy.local.put_absent(request, read.seen.clone()),
            };
            if let Some(shared) = &self.shared {
                match (&own, &kept) {
                    (Some(_), Some(kept)) => {
                        let lifetimes = policy.shared_lifetimes(request, kept);
                        shared.publish(lease.take(), request, kept, lifetimes);
                    }
                    // Another read has found nothing since this one began.
                    (Some(_), None) => shared.release(lease.take().as_ref(), None).await,
                    (None, _) => shared.publish_absent(lease.take(), request, read.seen),
                }
            }
            let is_own = |kept| own.as_ref().is_some_and(|own| Arc::ptr_eq(own, kept));
            match kept {
                None => return Err(ReadError::NotFound),
                Some(kept) if is_own(&kept) => {
                    return Ok((kept, Source::Upstream { collapsed: false }));
                }
                Some(kept) if policy.is_servable(request, &kept) => {
                    return Ok((kept, Source::Local));
                }
                Some(_) => {}
            }
        }
        let kept = policy.local.entries.get(request);
        let kept = kept.filter(|kept| !policy.is_outdated(request, &kept.seen));
        Ok((kept.ok_or(ReadError::Overloaded)?, Source::Local))
    }

    /// Counts a read that failed, releases its lease, and tells waiting replicas why, unless they may
    /// still read: where this one cannot reach the database, or sheds reads.
    async fn failed(&self, lease: Option<&Lease>, error: ReadError) -> ReadError {
        let mut told = None;
        if let ReadError::Upstream(cause) = &error {
            self.metrics.count(CacheEvent::LoadFailed);
            let answers = self.policy.upstream.answers(cause).await;
            told = answers.then_some(&**cause);
        }
        if let Some(shared) = &self.shared {
            shared.release(lease, told).await;
        }
        error
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
