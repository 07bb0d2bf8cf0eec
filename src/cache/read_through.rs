//! The entry point of the cache: local cache, shared cache, upstream. Handlers call only this.
//!
//! A fresh and current entry is served at once. A stale one is too, and is refreshed in the
//! background. Otherwise the request waits for a load (see [`super::load`]). Concurrent requests for
//! the same entry share one load, unless it began too early for a request to see each change that it
//! must see.

use std::sync::Arc;

use super::entry::Entry;
use super::freshness::Freshness;
use super::load::Loader;
use super::reply::{CacheReply, ReadError, Source};
use super::serve_policy::ServePolicy;
use super::shared::SharedCache;
use crate::config::Config;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::Request;
use crate::sync::SingleFlight;
use crate::upstream::{LoadStart, UpstreamClient};

type EntryResult = Result<(Arc<Entry>, Source), ReadError>;

/// Reads through both caches to the upstream. Cheap to clone.
#[derive(Clone)]
pub struct ReadThrough(Arc<ReadThroughState>);

struct ReadThroughState {
    policy: Arc<ServePolicy>,
    loader: Loader,
    /// Loads that requests wait for.
    loads: SingleFlight<Request, EntryResult, LoadStart>,
    /// Background refreshes.
    refreshes: SingleFlight<Request, ()>,
    metrics: Arc<Metrics>,
    max_bytes: u64,
}

/// The size of the local cache.
#[derive(Debug, Clone, Copy)]
pub struct CacheStats {
    /// The memory that it uses, in bytes.
    pub bytes: u64,
    /// The memory that it may use, in bytes.
    pub max_bytes: u64,
    /// Number of entries.
    pub entries: u64,
}

impl ReadThrough {
    /// Without `shared`, this replica caches for itself alone.
    pub fn new(
        config: &Config,
        shared: Option<SharedCache>,
        upstream: Arc<UpstreamClient>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let policy = Arc::new(ServePolicy::new(&config.cache, upstream));
        let loader = Loader::new(config, Arc::clone(&policy), shared, Arc::clone(&metrics));
        let (loads, refreshes) =
            (SingleFlight::new("cache_loads"), SingleFlight::new("cache_refreshes"));
        let max_bytes = config.cache.local_max_bytes;
        Self(Arc::new(ReadThroughState { policy, loader, loads, refreshes, metrics, max_bytes }))
    }

    /// The size of the local cache.
    pub fn stats(&self) -> CacheStats {
        let (bytes, entries) = self.0.policy.local.size();
        CacheStats { bytes, max_bytes: self.0.max_bytes, entries }
    }

    /// The entry for `request`.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn get(&self, request: &Request) -> Result<CacheReply, ReadError> {
        let policy = &self.0.policy;
        if let Some(entry) = policy.local.get(request)
            && let Some(reply) = self.serve_local(request, entry)
        {
            return Ok(reply);
        }
        if policy.is_known_absent(request) {
            return Err(ReadError::NotFound);
        }
        let (start, may_share) =
            (policy.upstream.load_start(), |load: &LoadStart| policy.may_share(request, load));
        let flight = self.0.loads.run_if(request, start, may_share, || {
            let (this, request) = (Arc::clone(&self.0), request.clone());
            async move { this.loader.load(&request).await }
        });
        let flight = flight.await?;
        let (entry, source) = match flight.value? {
            (entry, Source::Upstream { .. }) => {
                (entry, Source::Upstream { collapsed: flight.joined })
            }
            found => found,
        };
        if matches!(source, Source::Local | Source::Shared)
            && policy.classify(request, &entry) == Freshness::Stale
        {
            self.refresh(request);
        }
        self.0.publish_arena(request, &entry);
        let (fresh, age) = (policy.ages(request, &entry).fresh, policy.age(&entry.seen));
        Ok(CacheReply { entry, source, age, fresh })
    }

    /// The entry, if it may be served at once; a stale one is refreshed in the background.
    fn serve_local(&self, request: &Request, entry: Arc<Entry>) -> Option<CacheReply> {
        let policy = &self.0.policy;
        if !policy.is_current(request, &entry.seen) {
            self.0.metrics.count(CacheEvent::NotCurrent);
            return None;
        }
        let (ages, age) = (policy.ages(request, &entry), policy.age(&entry.seen));
        match ages.classify(age) {
            Freshness::Fresh => {}
            Freshness::Stale => self.refresh(request),
            Freshness::IfError | Freshness::Expired => return None,
        }
        Some(CacheReply { entry, source: Source::Local, age, fresh: ages.fresh })
    }

    /// Refreshes an entry in the background, with at most one task for each request.
    fn refresh(&self, request: &Request) {
        if !self.0.loader.may_refresh(request) {
            return;
        }
        let (this, owned_request) = (Arc::clone(&self.0), request.clone());
        self.0.refreshes.spawn(request, (), || async move {
            this.metrics.count(CacheEvent::Refresh);
            this.loader.refresh(&owned_request).await;
            if let Some(entry) = this.policy.local.get(&owned_request) {
                this.publish_arena(&owned_request, &entry);
            }
        });
    }
}

impl ReadThroughState {
    /// Publishes the numbers of a domain's arena as metrics.
    fn publish_arena(&self, request: &Request, entry: &Entry) {
        let Request::Insights(domain) = request else { return };
        let read_at = entry.seen.read_at.as_microsecond() as f64 / 1e6;
        self.metrics.domain(domain.as_str(), &entry.body, self.policy.age(&entry.seen), read_at);
    }
}
