//! The entry point of the cache: local cache, shared cache, upstream. Handlers call only this.
//!
//! A fresh and confirmed entry is served at once. A stale one is too, and is refreshed in the
//! background. The request for an unconfirmed one waits a little for its refresh. Otherwise the
//! request waits for a load (see [`super::load`]). Concurrent requests for
//! the same entry share one load, unless it began too early for a request to see each change that it
//! must see.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::entry::Entry;
use super::freshness::Freshness;
use super::load::Loader;
use super::local::CacheStats;
use super::reply::{CacheReply, EntryResult, ReadError, Source};
use super::shared::SharedCache;
use crate::config::Config;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::Request;
use crate::sync::{FlightReceiver, SingleFlight};
use crate::upstream::{BootInstant, Currency, ReadStart, UpstreamClient};

/// Longest wait of the request that began the refresh of an unconfirmed entry.
const CONFIRMATION_WAIT: Duration = Duration::from_millis(100);

/// A refresh under way.
type Refresh = FlightReceiver<()>;

/// Reads through both caches to the upstream. Cheap to clone.
#[derive(Clone)]
pub struct ReadThrough(Arc<ReadThroughState>);

struct ReadThroughState {
    loader: Loader,
    /// Loads that requests wait for.
    loads: SingleFlight<Request, EntryResult, ReadStart>,
    /// Background refreshes.
    refreshes: SingleFlight<Request, ()>,
}

impl ReadThrough {
    /// Without `shared`, this replica caches for itself alone.
    pub fn new(
        config: &Config,
        shared: Option<Arc<SharedCache>>,
        upstream: Arc<UpstreamClient>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let loader = Loader::new(config, shared, upstream, metrics);
        let (loads, refreshes) =
            (SingleFlight::new("cache_loads"), SingleFlight::new("cache_refreshes"));
        Self(Arc::new(ReadThroughState { loader, loads, refreshes }))
    }

    /// The size of the local cache.
    pub fn stats(&self) -> CacheStats {
        self.0.loader.policy.local.stats()
    }

    /// The entry for `request`.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn get(&self, request: &Request) -> Result<CacheReply, ReadError> {
        let policy = &self.0.loader.policy;
        if let Some(entry) = policy.local.get(request) {
            match self.serve(request, entry, Source::Local) {
                Servability::Ready(reply) => return Ok(reply),
                Servability::Unconfirmed(refresh) => {
                    if let Some(reply) = Box::pin(self.confirm(request, refresh)).await {
                        return Ok(reply);
                    }
                }
                Servability::Unservable => {}
            }
        }
        Box::pin(self.load(request)).await
    }

    async fn load(&self, request: &Request) -> Result<CacheReply, ReadError> {
        let policy = &self.0.loader.policy;
        if policy.absence(request) == Some(Currency::Confirmed) {
            return Err(ReadError::NotFound);
        }
        let start = policy.upstream.log.read_start();
        let may_share = |load: &ReadStart| policy.may_share(request, load);
        let flight = self.0.loads.run_if(request, start, may_share, || {
            let (this, request) = (Arc::clone(&self.0), request.clone());
            async move { this.loader.load(&request).await }
        });
        let flight = flight.await?;
        let (entry, mut source) = flight.value?;
        if let Source::Upstream { collapsed } = &mut source {
            *collapsed = flight.joined;
        }
        if matches!(source, Source::Local | Source::Shared) {
            match self.serve(request, Arc::clone(&entry), source) {
                Servability::Ready(reply) => return Ok(reply),
                Servability::Unconfirmed(refresh) => {
                    let confirmed = self.confirm(request, refresh).await;
                    return match confirmed {
                        Some(reply) => Ok(reply),
                        None => Box::pin(self.load(request)).await,
                    };
                }
                // It became so after this request was made.
                Servability::Unservable => {}
            }
        }
        Ok(self.0.reply(request, entry, source, BootInstant::now()))
    }

    /// The entry, if it may be served without a load; one that is stale or unconfirmed is refreshed.
    fn serve(&self, request: &Request, entry: Arc<Entry>, source: Source) -> Servability {
        let (policy, now) = (&self.0.loader.policy, BootInstant::now());
        let currency = policy.currency(request, &entry.seen, now);
        if currency == Currency::Outdated {
            self.0.loader.metrics.count(CacheEvent::NotCurrent);
            return Servability::Unservable;
        }
        match (policy.classify(request, &entry, now), currency) {
            (Freshness::IfError | Freshness::Expired, _) => return Servability::Unservable,
            (_, Currency::Unconfirmed) => return Servability::Unconfirmed(self.refresh(request)),
            (Freshness::Stale, _) => drop(self.refresh(request)),
            (Freshness::Fresh, _) => {}
        }
        Servability::Ready(self.0.reply(request, entry, source, now))
    }

    /// Waits a little for the refresh that this request began. The reply is what there is then: as
    /// read anew, or unconfirmed; `None` if a load is needed.
    async fn confirm(&self, request: &Request, refresh: Option<Refresh>) -> Option<CacheReply> {
        if let Some(mut refresh) = refresh {
            // Whether it ended, in time or by a panic, shows in what there is then.
            let _ = timeout(CONFIRMATION_WAIT, refresh.wait_for(Option::is_some)).await;
        }
        let (policy, now) = (&self.0.loader.policy, BootInstant::now());
        let entry = policy.local.get(request)?;
        let source = match policy.currency(request, &entry.seen, now) {
            Currency::Confirmed => Source::Upstream { collapsed: false },
            Currency::Unconfirmed => Source::Unconfirmed,
            Currency::Outdated => return None,
        };
        Some(self.0.reply(request, entry, source, now))
    }

    /// Refreshes an entry in the background, with at most one task for each request. Returns the
    /// refresh if this call began it.
    fn refresh(&self, request: &Request) -> Option<Refresh> {
        if !self.0.loader.may_refresh(request) {
            return None;
        }
        let (this, owned_request) = (Arc::clone(&self.0), request.clone());
        self.0.refreshes.spawn(request, (), || async move {
            this.loader.metrics.count(CacheEvent::Refresh);
            this.loader.refresh(&owned_request).await;
            if let Some(entry) = this.loader.policy.local.get(&owned_request) {
                this.publish_arena(&owned_request, &entry);
            }
        })
    }
}

/// Whether an entry may be served without a load.
enum Servability {
    Ready(CacheReply),
    /// After a short wait for the refresh, if this request began it.
    Unconfirmed(Option<Refresh>),
    Unservable,
}

impl ReadThroughState {
    fn reply(
        &self,
        request: &Request,
        entry: Arc<Entry>,
        source: Source,
        now: BootInstant,
    ) -> CacheReply {
        let (fresh, age) =
            (self.loader.policy.ages(request, &entry).fresh, now.since(entry.seen.began));
        if !matches!(source, Source::Local) {
            self.publish_arena(request, &entry);
        }
        CacheReply { entry, source, age, fresh }
    }

    /// Publishes the numbers of a domain's arena as metrics.
    fn publish_arena(&self, request: &Request, entry: &Entry) {
        let Request::Insights(domain) = request else { return };
        let read_at = entry.seen.read_at.as_microsecond() as f64 / 1e6;
        self.loader.metrics.domain(
            domain.as_str(),
            &entry.body,
            entry.seen.began.elapsed(),
            read_at,
        );
    }
}
