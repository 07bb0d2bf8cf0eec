//! Loads: how an answer that is not at hand is come by. One replica reads for all.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::admission::{Admission, Busy, Urgency};
use super::entry::Entry;
use super::freshness::{Ages, Freshness};
use super::local::LocalCache;
use super::read::Found;
use super::read_through::ReadError;
use super::shared::{Claim, Lease, SharedCache, Waited};
use crate::config::Config;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::{Request, Timestamp};
use crate::upstream::{Concern, Seen, UpstreamError, Watched};

/// Before another try to take a lease that ended with something too old.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// After a refresh in vain, and how many of these are remembered.
const PAUSE: Duration = Duration::from_secs(1);
const VAIN: u64 = 10_000;

/// Where a load, which may serve many requests, found its answer.
#[derive(Debug, Clone)]
pub(super) enum Loaded {
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
    Busy(#[from] Busy),
}

/// What reading an answer gave: it, or that there is no such thing.
type Filled = Result<Option<Loaded>, NotRead>;

/// Comes by answers.
pub(super) struct Loader {
    pub(super) local: LocalCache,
    shared: Option<SharedCache>,
    pub(super) upstream: Arc<Watched>,
    pub(super) search: Ages,
    phenotype: Ages,
    insights: Ages,
    deadline: Duration,
    pub(super) admission: Admission,
    refreshed_in_vain: Cache<Request, ()>,
    metrics: Arc<Metrics>,
}

impl Loader {
    pub(super) fn new(
        config: &Config,
        shared: Option<SharedCache>,
        upstream: Arc<Watched>,
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
            admission: admission(config, &metrics),
            refreshed_in_vain: Cache::builder().max_capacity(VAIN).time_to_live(PAUSE).build(),
            metrics,
        }
    }

    /// The ages of an answer.
    pub(super) fn ages(&self, request: &Request, entry: &Entry) -> Ages {
        self.kind(request).shortened(entry.shortening)
    }

    fn kind(&self, request: &Request) -> &Ages {
        match request {
            Request::Search(_) => &self.search,
            Request::Phenotype(_) => &self.phenotype,
            Request::Insights(_) => &self.insights,
        }
    }

    /// What may be done with an answer, by its age.
    pub(super) fn judge(&self, request: &Request, entry: &Entry) -> Freshness {
        self.ages(request, entry).judge(self.age(&entry.seen))
    }

    /// Time since a read. One from the future, by a clock that runs ahead, has no age yet.
    pub(super) fn age(&self, seen: &Seen) -> Duration {
        let age = self.upstream.now().duration_since(seen.read_at);
        Duration::try_from(age).unwrap_or_default()
    }

    /// Whether what was read is current.
    pub(super) fn is_current(&self, request: &Request, seen: &Seen) -> bool {
        let concern = match request {
            Request::Phenotype(id) => Concern::Gene(*id),
            Request::Insights(domain) => Concern::Domain(domain),
            Request::Search(search) => Concern::of_filter(&search.filter),
        };
        self.upstream.is_current(concern, seen)
    }

    /// Whether it is known, and still current, that there is no such thing.
    pub(super) fn is_known_absent(&self, request: &Request) -> bool {
        self.local.not_found(request).is_some_and(|seen| self.is_current(request, &seen))
    }

    fn is_sendable(&self, request: &Request, entry: &Entry) -> bool {
        self.is_good(request, entry, Freshness::Stale)
    }

    fn is_fresh(&self, request: &Request, entry: &Entry) -> bool {
        self.is_good(request, entry, Freshness::Fresh)
    }

    /// Whether an answer is current and at worst `worst`, and its gene was not seen to be gone.
    fn is_good(&self, request: &Request, entry: &Entry, worst: Freshness) -> bool {
        self.judge(request, entry) <= worst
            && self.is_current(request, &entry.seen)
            && !self.local.is_gone(request, entry)
    }

    /// The answer for somebody who waits: from Redis if it may be sent, else read.
    pub(super) async fn load(&self, request: &Request) -> Result<Loaded, ReadError> {
        // Between the look before this and the beginning of the load, another may have ended.
        if let Some(entry) = self.local.get(request)
            && self.is_sendable(request, &entry)
        {
            return Ok(Loaded::Local(entry));
        }
        if self.is_known_absent(request) {
            return Err(ReadError::NotFound);
        }
        let shared = self.shared_entry(request).await;
        if let Some(entry) = &shared
            && self.is_sendable(request, entry)
        {
            let entry = self.local.put(request, entry);
            return Ok(Loaded::Shared(entry));
        }
        // Nobody waits for a database known to be away, unless there is nothing else to send.
        if !self.upstream.is_in_use()
            && let Some(entry) = self.older(request, shared.clone())
        {
            return Ok(Loaded::Stale(entry));
        }
        match self.fill(request, shared.as_deref(), Urgency::Awaited).await {
            Ok(Some(loaded)) => Ok(loaded),
            Ok(None) => Err(ReadError::NotFound),
            // Not trouble with the upstream, which an older answer could tide over.
            Err(NotRead::Failed(error @ UpstreamError::Contract(_))) => {
                Err(ReadError::Upstream(Arc::new(error)))
            }
            Err(NotRead::Failed(error)) => match self.older(request, shared) {
                Some(entry) => Ok(Loaded::Stale(entry)),
                None => Err(ReadError::Upstream(Arc::new(error))),
            },
            // The upstream is there: what is known to be out of date is not sent.
            Err(NotRead::Busy(Busy)) => {
                let older = self.older(request, shared);
                let current = older.filter(|entry| self.is_current(request, &entry.seen));
                current.map(Loaded::StaleIfBusy).ok_or(ReadError::Busy)
            }
        }
    }

    /// Whether there is any use in reading a stale answer again just now.
    pub(super) fn may_refresh(&self, request: &Request) -> bool {
        self.upstream.is_in_use() && !self.refreshed_in_vain.contains_key(request)
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
        if let Err(error) = self.fill(request, shared.as_deref(), Urgency::Behind).await {
            self.refreshed_in_vain.insert(request.clone(), ());
            tracing::debug!(%error, "a stale answer could not be read again");
        }
    }

    async fn shared_entry(&self, request: &Request) -> Option<Arc<Entry>> {
        let entry = self.shared.as_ref()?.get(request).await?;
        Some(Arc::new(entry))
    }

    /// The newest answer that may be sent while the upstream fails.
    fn older(&self, request: &Request, shared: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        let newest = [self.local.get(request), shared]
            .into_iter()
            .flatten()
            .max_by_key(|entry| entry.seen.read_at)?;
        let may_be_sent = self.judge(request, &newest) != Freshness::Dead
            && !self.local.is_gone(request, &newest);
        // Kept, so that nothing older is ever sent after it.
        may_be_sent.then(|| self.local.put(request, &newest))
    }

    /// Reads the answer, or waits for the replica that does. `known` is what Redis has, as far as
    /// we know.
    async fn fill(&self, request: &Request, known: Option<&Entry>, urgency: Urgency) -> Filled {
        let since = self.local.newest(request).max(known.map(|entry| entry.seen.read_at));
        let read_for_all = |lease| self.read_for_all(request, since, lease, urgency);
        let Some(shared) = &self.shared else { return read_for_all(None).await };
        let deadline = Instant::now() + self.deadline / 2;
        let is_fresh = |entry: &Entry| self.is_fresh(request, entry);
        let found = |entry| {
            let entry = self.local.put(request, &Arc::new(entry));
            Ok(Some(Loaded::Shared(entry)))
        };
        loop {
            let token = match shared.claim(request, known).await {
                Claim::Ours { lease, has_news } => {
                    // The one before us has published between our look and our claim.
                    if has_news && let Some(entry) = shared.get(request).await.filter(is_fresh) {
                        shared.give_back(&lease).await;
                        return found(entry);
                    }
                    return read_for_all(Some(lease)).await;
                }
                Claim::NoLeases => return read_for_all(None).await,
                Claim::Theirs(token) => token,
            };
            self.metrics.count(CacheEvent::Waited);
            match shared.wait(request, &token, deadline, is_fresh).await {
                Waited::Answer(entry) => return found(entry),
                Waited::Absent(seen) if self.is_current(request, &seen) => {
                    self.local.put_absent(request, seen);
                    return Ok(None);
                }
                // Read before a change that is known here.
                Waited::Absent(_) if Instant::now() < deadline => sleep(LOOK_AGAIN).await,
                Waited::Absent(_) => return read_for_all(None).await,
                // Rather than what is known to be out of date.
                Waited::Failed if self.upstream.is_in_use() && self.local.knows(request) => {}
                Waited::Failed => return Err(UpstreamError::Elsewhere.into()),
                Waited::GaveUp => return read_for_all(None).await,
                Waited::LeaseEnded => {}
            }
        }
    }

    /// Reads from the upstream, and lets everybody know.
    async fn read_for_all(
        &self,
        request: &Request,
        since: Option<Timestamp>,
        lease: Option<Lease>,
        urgency: Urgency,
    ) -> Filled {
        let read = match self.read(request, since, urgency).await {
            Ok(found) => Ok(found),
            Err(NotRead::Failed(error)) => Err(error),
            Err(NotRead::Busy(busy)) => {
                // Another replica may have room for it.
                if let (Some(shared), Some(lease)) = (&self.shared, &lease) {
                    shared.give_back(lease).await;
                }
                return Err(busy.into());
            }
        };
        self.metrics.count(CacheEvent::Load { failed: read.is_err() });
        match read {
            Ok(Found::Answer(entry)) => {
                let entry = self.local.put(request, &Arc::new(entry));
                if let Some(shared) = &self.shared {
                    let lifetime = self.ages(request, &entry).if_error;
                    let left = lifetime.saturating_sub(self.age(&entry.seen));
                    shared.publish(lease, request, &entry, left).await;
                }
                Ok(Some(Loaded::Upstream(entry)))
            }
            Ok(Found::Nothing(seen)) => {
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

fn admission(config: &Config, metrics: &Metrics) -> Admission {
    let misses = config.shed.misses(config.upstream.pool_size);
    Admission::new(misses, config.shed.queue, config.shed.wait(), metrics.shed())
}
