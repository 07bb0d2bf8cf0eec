//! The entry point of the cache: local cache, shared cache, upstream. Handlers call only this.
//!
//! A fresh and confirmed entry is served at once. A stale one is too, and is refreshed in the
//! background. The request for an unconfirmed one waits a little for its refresh. Otherwise the
//! request waits for a load (see [`super::load`]). Concurrent requests for
//! the same entry share one load, unless it began too early for a request to see each change that it
//! must see.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::timeout;

use super::broken_rows::BrokenRows;
use super::entry::Entry;
use super::lease::PUBLICATIONS;
use super::load::Loader;
use super::local::CacheStats;
use super::read_limiter::ReadLimiter;
use super::reply::{CacheReply, ReadError, Source};
use super::serve_policy::{Freshness, ServePolicy, depends_on};
use super::shared::SharedCache;
use crate::config::Config;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::Request;
use crate::sync::supervised::register;
use crate::sync::{FlightOutcome, FlightReceiver, SingleFlight};
use crate::upstream::{BootInstant, Currency, ReadStart, UpstreamClient};

/// Longest wait of the request that began the refresh of an unconfirmed entry.
const CONFIRMATION_WAIT: Duration = Duration::from_millis(100);

/// Pause after a failed background refresh before the next one of the same request.
const REFRESH_BACKOFF: Duration = Duration::from_secs(2);

/// Maximum number of requests whose refresh is paused.
const MAX_BACKOFFS: u64 = 10_000;

/// A refresh under way.
type Refresh = FlightReceiver<()>;

/// Reads through both caches to the upstream. Cheap to clone.
#[derive(Clone)]
pub struct ReadThrough(Arc<Loader>);

impl ReadThrough {
    /// Without `shared`, this replica caches for itself alone.
    pub fn new(
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
        register(PUBLICATIONS);
        Self(Arc::new(Loader {
            policy: ServePolicy::new(&config.cache, upstream),
            shared,
            limiter,
            max_wait: deadline / 2,
            metrics,
            loads: SingleFlight::new("cache_loads"),
            counts: SingleFlight::new("cache_counts"),
            broken_rows: BrokenRows::default(),
            refreshes: SingleFlight::new("cache_refreshes"),
            refresh_backoff: Cache::builder()
                .max_capacity(MAX_BACKOFFS)
                .time_to_live(REFRESH_BACKOFF)
                .build(),
        }))
    }

    /// The size of the local cache.
    pub fn stats(&self) -> CacheStats {
        self.0.policy.local.stats()
    }

    /// Number of genes that the latest unfiltered search left out because they violate the contract
    /// of the views.
    pub fn broken_rows(&self) -> u64 {
        self.0.broken_rows.total()
    }

    /// The entry for `request`.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn get(&self, request: &Request) -> Result<CacheReply, ReadError> {
        let policy = &self.0.policy;
        if let Some(entry) = policy.local.entries.get(request) {
            match self.serve(request, entry, Source::Local) {
                Servability::Ready(reply) => return Ok(reply),
                Servability::Unconfirmed(refresh) => {
                    return Box::pin(self.confirm(request, refresh)).await;
                }
                Servability::Unservable => {}
            }
        }
        Box::pin(self.load(request)).await
    }

    async fn load(&self, request: &Request) -> Result<CacheReply, ReadError> {
        let policy = &self.0.policy;
        if policy.absence(request) == Some(Currency::Confirmed) {
            return Err(ReadError::NotFound);
        }
        let log = &policy.upstream.log;
        let may_share = |load: &ReadStart| log.may_share(depends_on(request), load);
        let flight = self.0.loads.run_if(request, log.read_start(), may_share, || {
            let (loader, request) = (Arc::clone(&self.0), request.clone());
            async move { loader.load(&request).await }
        });
        let FlightOutcome { value, joined } = flight.await?;
        let (entry, mut source) = value?;
        if let Source::Upstream { collapsed } = &mut source {
            *collapsed = joined;
        }
        if matches!(source, Source::Local | Source::Shared) {
            match self.serve(request, Arc::clone(&entry), source) {
                Servability::Ready(reply) => return Ok(reply),
                Servability::Unconfirmed(refresh) => return self.confirm(request, refresh).await,
                // It became so after this request was made.
                Servability::Unservable => {}
            }
        }
        Ok(self.reply(request, entry, source, BootInstant::now()))
    }

    /// The entry, if it may be served without a load; one that is stale or unconfirmed is refreshed.
    fn serve(&self, request: &Request, entry: Arc<Entry>, source: Source) -> Servability {
        let (policy, now) = (&self.0.policy, BootInstant::now());
        let currency = policy.currency(request, &entry.seen, now);
        match (currency, policy.classify(request, &entry, now)) {
            (Currency::Outdated, _) => {
                self.0.metrics.count(CacheEvent::NotCurrent);
                return Servability::Unservable;
            }
            (_, Freshness::IfError | Freshness::Expired) => return Servability::Unservable,
            (Currency::Unconfirmed, _) => return Servability::Unconfirmed(self.refresh(request)),
            (Currency::Confirmed, Freshness::Stale) => drop(self.refresh(request)),
            (Currency::Confirmed, Freshness::Fresh) => {}
        }
        Servability::Ready(self.reply(request, entry, source, now))
    }

    /// Waits a little for the refresh that this request began. The reply is what there is then: as
    /// read anew, or unconfirmed; if it is outdated or deleted, as it is loaded.
    async fn confirm(
        &self,
        request: &Request,
        refresh: Option<Refresh>,
    ) -> Result<CacheReply, ReadError> {
        if let Some(mut refresh) = refresh {
            // Whether it ended, in time or by a panic, shows in what there is then.
            let _ = timeout(CONFIRMATION_WAIT, refresh.wait_for(Option::is_some)).await;
        }
        let (policy, now) = (&self.0.policy, BootInstant::now());
        let local = policy.local.entries.get(request);
        match local.map(|entry| (policy.currency(request, &entry.seen, now), entry)) {
            Some((Currency::Confirmed, entry)) => {
                Ok(self.reply(request, entry, Source::Upstream { collapsed: false }, now))
            }
            Some((Currency::Unconfirmed, entry)) => {
                Ok(self.reply(request, entry, Source::Unconfirmed, now))
            }
            Some((Currency::Outdated, _)) | None => Box::pin(self.load(request)).await,
        }
    }

    /// Refreshes an entry in the background, with at most one task for each request. Returns the
    /// refresh if this call began it.
    fn refresh(&self, request: &Request) -> Option<Refresh> {
        // It would fail, as far as is known.
        if !self.0.policy.upstream.is_in_use() || self.0.refresh_backoff.contains_key(request) {
            return None;
        }
        let (loader, owned_request) = (Arc::clone(&self.0), request.clone());
        self.0.refreshes.spawn(request, (), || async move {
            loader.metrics.count(CacheEvent::Refresh);
            loader.refresh(&owned_request).await;
            if let Some(entry) = loader.policy.local.entries.get(&owned_request) {
                loader.publish_arena(&owned_request, &entry);
            }
        })
    }

    fn reply(
        &self,
        request: &Request,
        entry: Arc<Entry>,
        source: Source,
        now: BootInstant,
    ) -> CacheReply {
        let fresh = self.0.policy.ages(request, &entry).fresh;
        let age = now.since(entry.seen.began);
        if !matches!(source, Source::Local) {
            self.0.publish_arena(request, &entry);
        }
        CacheReply { entry, source, age, fresh }
    }
}

/// Whether an entry may be served without a load.
enum Servability {
    Ready(CacheReply),
    /// After a short wait for the refresh, if this request began it.
    Unconfirmed(Option<Refresh>),
    Unservable,
}
