//! The way of a read: local, shared, upstream. Handlers call this and nothing below it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thiserror::Error;

use super::answer::Answer;
use super::entry::Entry;
use super::freshness::{Ages, Freshness};
use super::local::LocalCache;
use super::shared::SharedCache;
use crate::config::CacheConfig;
use crate::flight::{Crashed, Flights};
use crate::registry::{Request, Timestamp};
use crate::upstream::{Upstream, UpstreamError};

/// Why there is no answer.
#[derive(Debug, Clone, Error)]
pub enum ReadError {
    /// The gene or domain does not exist.
    #[error("there is no such thing")]
    NotFound,
    /// The upstream failed, and there is no older answer that may be sent.
    #[error("the registry cannot be read")]
    Upstream(#[source] Arc<UpstreamError>),
    /// The load crashed.
    #[error(transparent)]
    Crashed(#[from] Crashed),
}

/// An answer, and how it was come by.
#[derive(Debug, Clone)]
pub struct Served {
    /// The answer.
    pub entry: Arc<Entry>,
    /// Where it was found.
    pub source: Source,
    /// Time since it was read.
    pub age: Duration,
    /// Time for which it is still fresh; zero when it no longer is.
    pub fresh_for: Duration,
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
        }
    }
}

/// Where a load, which may serve many requests, found its answer.
#[derive(Debug, Clone)]
enum Loaded {
    Shared(Arc<Entry>),
    Upstream(Arc<Entry>),
    Stale(Arc<Entry>),
}

type Load = Result<Loaded, ReadError>;

/// Reads through both caches to the upstream. Cheap to clone.
#[derive(Clone)]
pub struct ReadThrough(Arc<Inner>);

struct Inner {
    local: LocalCache,
    shared: Option<SharedCache>,
    upstream: Arc<dyn Upstream>,
    flights: Flights<Request, Load>,
    search: Ages,
    phenotype: Ages,
    insights: Ages,
    upstream_answers: AtomicBool,
}

impl ReadThrough {
    /// Without `shared`, this replica keeps its answers to itself.
    pub fn new(
        config: &CacheConfig,
        shared: Option<SharedCache>,
        upstream: Arc<dyn Upstream>,
    ) -> Self {
        let ages = [config.search, config.phenotype, config.insights].map(Ages::from);
        let longest = ages.iter().map(|ages| ages.if_error).max().unwrap_or_default();
        let [search, phenotype, insights] = ages;
        let local = LocalCache::new(config.local_max_bytes, longest, config.not_found());
        let flights = Flights::default();
        Self(Arc::new(Inner {
            local,
            shared,
            upstream,
            flights,
            search,
            phenotype,
            insights,
            upstream_answers: AtomicBool::new(false),
        }))
    }

    /// Whether the upstream answered when it was last asked.
    pub fn upstream_answers(&self) -> bool {
        self.0.upstream_answers.load(Ordering::Relaxed)
    }

    /// Asks the upstream for a sign of life.
    ///
    /// # Errors
    /// As [`Upstream::ping`].
    pub async fn ping(&self) -> Result<(), UpstreamError> {
        let answer = self.0.upstream.ping().await;
        self.0.upstream_answers.store(answer.is_ok(), Ordering::Relaxed);
        answer
    }

    /// The answer to `request`.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn get(&self, request: &Request) -> Result<Served, ReadError> {
        let now = Timestamp::now();
        let ages = self.0.ages(request);
        if let Some(entry) = self.0.local.get(request)
            && ages.judge(age(&entry, now)) == Freshness::Fresh
        {
            return Ok(served(entry, Source::Local, ages, now));
        }
        if self.0.local.is_not_found(request) {
            return Err(ReadError::NotFound);
        }
        let landed = self.0.flights.join(request, || {
            let (inner, request) = (Arc::clone(&self.0), request.clone());
            async move { inner.load(&request).await }
        });
        let landed = landed.await?;
        let (entry, source) = match landed.value? {
            Loaded::Shared(entry) => (entry, Source::Shared),
            Loaded::Upstream(entry) => (entry, Source::Upstream { collapsed: landed.joined }),
            Loaded::Stale(entry) => (entry, Source::StaleIfError),
        };
        Ok(served(entry, source, ages, Timestamp::now()))
    }
}

impl Inner {
    fn ages(&self, request: &Request) -> &Ages {
        match request {
            Request::Search(_) => &self.search,
            Request::Phenotype(_) => &self.phenotype,
            Request::Insights(_) => &self.insights,
        }
    }

    async fn load(&self, request: &Request) -> Load {
        let ages = self.ages(request);
        let mut older = self.local.get(request);
        if let Some(shared) = &self.shared
            && let Some(entry) = shared.get(request).await
        {
            let entry = Arc::new(entry);
            if ages.judge(age(&entry, Timestamp::now())) == Freshness::Fresh {
                self.local.put(request, &entry);
                return Ok(Loaded::Shared(entry));
            }
            if older.as_ref().is_none_or(|older| older.read_at < entry.read_at) {
                older = Some(entry);
            }
        }
        let read = self.read(request).await;
        self.upstream_answers.store(read.is_ok(), Ordering::Relaxed);
        match read {
            Ok(Some(entry)) => {
                let entry = Arc::new(entry);
                self.local.put(request, &entry);
                if let Some(shared) = &self.shared {
                    shared.put(request, &entry, ages.if_error).await;
                }
                Ok(Loaded::Upstream(entry))
            }
            Ok(None) => {
                self.local.put_not_found(request);
                Err(ReadError::NotFound)
            }
            Err(error) => {
                let may_be_sent = |entry: &Arc<Entry>| {
                    ages.judge(age(entry, Timestamp::now())) != Freshness::Dead
                };
                match older.filter(may_be_sent) {
                    Some(entry) => Ok(Loaded::Stale(entry)),
                    None => Err(ReadError::Upstream(Arc::new(error))),
                }
            }
        }
    }

    async fn read(&self, request: &Request) -> Result<Option<Entry>, UpstreamError> {
        Ok(match request {
            Request::Search(search) => {
                let read = self.upstream.search(search).await?;
                Some(Entry::new(Answer::page(search, &read.value), read.read_at))
            }
            Request::Phenotype(id) => {
                let read = self.upstream.phenotype(*id).await?;
                read.value.map(|value| Entry::new(Answer::of(&value), read.read_at))
            }
            Request::Insights(domain) => {
                let read = self.upstream.insights(domain, Timestamp::now()).await?;
                read.value.map(|value| Entry::new(Answer::of(&value), read.read_at))
            }
        })
    }
}

fn served(entry: Arc<Entry>, source: Source, ages: &Ages, now: Timestamp) -> Served {
    let age = age(&entry, now);
    Served { entry, source, age, fresh_for: ages.fresh.saturating_sub(age) }
}

/// An answer from the future, by a clock that runs ahead, has no age yet.
fn age(entry: &Entry, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(entry.read_at)).unwrap_or_default()
}
