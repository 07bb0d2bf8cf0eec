//! The way of a read: local, shared, upstream. Handlers call this and nothing below it.
//!
//! An answer that is young enough and current is sent at once; a stale one too, while one task
//! reads it again. Everything else waits for a load, one for all who ask (see [`super::load`]).

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::entry::Entry;
use super::freshness::Freshness;
use super::load::{LoadOutcome, Loader};
use super::shared::SharedCache;
use crate::config::Config;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::Request;
use crate::sync::{SingleFlight, TaskPanicked};
use crate::upstream::{UpstreamClient, UpstreamError};

/// Why there is no answer.
#[derive(Debug, Clone, Error)]
pub enum ReadError {
    /// The gene or domain does not exist.
    #[error("there is no such thing")]
    NotFound,
    /// The upstream failed, and there is no older answer that may be sent.
    #[error("the registry cannot be read")]
    Upstream(#[source] Arc<UpstreamError>),
    /// There is too much to read already, and no older answer that may be sent.
    #[error("too many answers are being read")]
    Overloaded,
    /// The load crashed.
    #[error(transparent)]
    Crashed(#[from] TaskPanicked),
}

/// An answer, and how it was come by.
#[derive(Debug, Clone)]
pub struct CacheReply {
    /// The answer.
    pub entry: Arc<Entry>,
    /// Where it was found.
    pub source: Source,
    /// Time since it was read.
    pub age: Duration,
    /// Time for which it is fresh, counted from the read.
    pub fresh: Duration,
}

/// Where an answer was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In this process.
    Local,
    /// In Redis.
    Shared,
    /// Read from the upstream for this request, or for another that asked at the same time.
    Upstream {
        /// Whether it was for another one.
        collapsed: bool,
    },
    /// An older answer, because the upstream was tried in vain.
    StaleIfError,
    /// An older answer, because there is too much to read already.
    StaleIfBusy,
}

impl Source {
    /// As it stands in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Shared => "shared",
            Self::Upstream { collapsed: false } => "miss",
            Self::Upstream { collapsed: true } => "collapsed",
            Self::StaleIfError => "stale-if-error",
            Self::StaleIfBusy => "stale-if-busy",
        }
    }
}

type Load = Result<LoadOutcome, ReadError>;

/// Reads through both caches to the upstream. Cheap to clone.
#[derive(Clone)]
pub struct ReadThrough(Arc<Inner>);

struct Inner {
    loader: Arc<Loader>,
    /// Somebody waits for these.
    loads: SingleFlight<Request, Load>,
    /// Nobody does.
    refreshes: SingleFlight<Request, ()>,
    metrics: Arc<Metrics>,
    max_bytes: u64,
}

/// What is held in this process.
#[derive(Debug, Clone, Copy)]
pub struct CacheStats {
    /// Weight of the answers.
    pub bytes: u64,
    /// The most that it may be.
    pub max_bytes: u64,
    /// Answers.
    pub entries: u64,
}

impl ReadThrough {
    /// Without `shared`, this replica keeps its answers to itself.
    pub fn new(
        config: &Config,
        shared: Option<SharedCache>,
        upstream: Arc<UpstreamClient>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let loader = Arc::new(Loader::new(config, shared, upstream, Arc::clone(&metrics)));
        let (loads, refreshes) = (SingleFlight::default(), SingleFlight::default());
        let max_bytes = config.cache.local_max_bytes;
        Self(Arc::new(Inner { loader, loads, refreshes, metrics, max_bytes }))
    }

    /// What is held in this process.
    pub fn held(&self) -> CacheStats {
        let (bytes, entries) = self.0.loader.local.held();
        CacheStats { bytes, max_bytes: self.0.max_bytes, entries }
    }

    /// The answer to `request`.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn get(&self, request: &Request) -> Result<CacheReply, ReadError> {
        let loader = &self.0.loader;
        if let Some(entry) = loader.local.get(request)
            && let Some(served) = self.serve(request, entry, Source::Local)
        {
            return Ok(served);
        }
        if loader.is_known_absent(request) {
            return Err(ReadError::NotFound);
        }
        let landed = self.0.loads.run(request, || {
            let (loader, request) = (Arc::clone(loader), request.clone());
            async move { loader.load(&request).await }
        });
        let landed = landed.await?;
        let (entry, source) = match landed.value? {
            LoadOutcome::Local(entry) => (entry, Source::Local),
            LoadOutcome::Shared(entry) => (entry, Source::Shared),
            LoadOutcome::Upstream(entry) => (entry, Source::Upstream { collapsed: landed.joined }),
            LoadOutcome::Stale(entry) => (entry, Source::StaleIfError),
            LoadOutcome::StaleIfBusy(entry) => (entry, Source::StaleIfBusy),
        };
        if matches!(source, Source::Local | Source::Shared)
            && loader.classify(request, &entry) == Freshness::Stale
        {
            self.refresh(request);
        }
        self.0.show(request, &entry);
        Ok(self.served(request, entry, source))
    }

    /// The entry, if it may be sent at once; a stale one is read again behind it.
    fn serve(&self, request: &Request, entry: Arc<Entry>, source: Source) -> Option<CacheReply> {
        if !self.0.loader.is_current(request, &entry.seen) {
            self.0.metrics.count(CacheEvent::NotCurrent);
            return None;
        }
        let (ages, age) = (self.0.loader.ages(request, &entry), self.0.loader.age(&entry.seen));
        match ages.classify(age) {
            Freshness::Fresh => {}
            Freshness::Stale => self.refresh(request),
            Freshness::IfError | Freshness::Expired => return None,
        }
        Some(CacheReply { entry, source, age, fresh: ages.fresh })
    }

    fn served(&self, request: &Request, entry: Arc<Entry>, source: Source) -> CacheReply {
        let fresh = self.0.loader.ages(request, &entry).fresh;
        let age = self.0.loader.age(&entry.seen);
        CacheReply { entry, source, age, fresh }
    }

    /// Reads again, behind everybody's back: one task a request.
    fn refresh(&self, request: &Request) {
        if !self.0.loader.may_refresh(request) {
            return;
        }
        let (this, request_again) = (Arc::clone(&self.0), request.clone());
        self.0.refreshes.spawn(request, || async move {
            this.metrics.count(CacheEvent::Refresh);
            this.loader.refresh(&request_again).await;
            if let Some(entry) = this.loader.local.get(&request_again) {
                this.show(&request_again, &entry);
            }
        });
    }
}

impl Inner {
    /// Shows in the metrics what was read of a domain's arena.
    fn show(&self, request: &Request, entry: &Entry) {
        let Request::Insights(domain) = request else { return };
        let read_at = entry.seen.read_at.as_microsecond() as f64 / 1e6;
        self.metrics.domain(domain.as_str(), &entry.body, self.loader.age(&entry.seen), read_at);
    }
}
