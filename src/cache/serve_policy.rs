//! Decides which entries may be served: by their age, by the changes that are known to have
//! happened since they were read, and by what this replica has found to be deleted.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::freshness::{Ages, Freshness};
use super::local::LocalCache;
use crate::config::CacheConfig;
use crate::registry::Request;
use crate::upstream::{DependsOn, LoadStart, ReadStamp, UpstreamClient};

/// The local cache and all that the decisions depend on.
pub(super) struct ServePolicy {
    pub(super) local: LocalCache,
    pub(super) upstream: Arc<UpstreamClient>,
    pub(super) search: Ages,
    phenotype: Ages,
    insights: Ages,
}

impl ServePolicy {
    pub(super) fn new(config: &CacheConfig, upstream: Arc<UpstreamClient>) -> Self {
        let [search, phenotype, insights] =
            [config.search, config.phenotype, config.insights].map(Ages::from);
        let longest = search.if_error.max(phenotype.if_error).max(insights.if_error);
        let not_found = Duration::from_secs(config.not_found_s);
        let local = LocalCache::new(config.local_max_bytes, longest, not_found, search.fresh);
        Self { local, upstream, search, phenotype, insights }
    }

    /// The ages of an entry, with its jitter.
    pub(super) fn ages(&self, request: &Request, entry: &Entry) -> Ages {
        let ages = match request {
            Request::Search(_) => &self.search,
            Request::Phenotype(_) => &self.phenotype,
            Request::Insights(_) => &self.insights,
        };
        ages.shortened(entry.ttl_jitter)
    }

    pub(super) fn classify(&self, request: &Request, entry: &Entry) -> Freshness {
        self.ages(request, entry).classify(self.age(&entry.seen))
    }

    /// Time since a read; zero if the stamp is in the future, because of a clock that is ahead.
    pub(super) fn age(&self, seen: &ReadStamp) -> Duration {
        let age = self.upstream.now().duration_since(seen.read_at);
        Duration::try_from(age).unwrap_or_default()
    }

    /// Whether a read with this stamp contains every known change that concerns the request.
    pub(super) fn is_current(&self, request: &Request, seen: &ReadStamp) -> bool {
        self.upstream.is_current(depends_on(request), seen)
    }

    /// Whether a request that is made now may get the result of a load that began then.
    pub(super) fn may_share(&self, request: &Request, load: &LoadStart) -> bool {
        self.upstream.may_share(depends_on(request), load)
    }

    /// Whether the request was found to have no result, and no change since then is known.
    pub(super) fn is_known_absent(&self, request: &Request) -> bool {
        self.local.not_found(request).is_some_and(|seen| self.is_current(request, &seen))
    }

    /// Whether an entry may be served without a read, possibly with a background refresh.
    pub(super) fn is_servable(&self, request: &Request, entry: &Entry) -> bool {
        self.is_current_entry(request, entry, Freshness::Stale)
    }

    pub(super) fn is_fresh(&self, request: &Request, entry: &Entry) -> bool {
        self.is_current_entry(request, entry, Freshness::Fresh)
    }

    /// Whether an entry is current, not older than `worst`, and its gene not known to be deleted.
    fn is_current_entry(&self, request: &Request, entry: &Entry, worst: Freshness) -> bool {
        self.classify(request, entry) <= worst
            && self.is_current(request, &entry.seen)
            && !self.local.is_deleted(request, entry)
    }
}

fn depends_on(request: &Request) -> DependsOn<'_> {
    match request {
        Request::Phenotype(id) => DependsOn::Gene(*id),
        Request::Insights(domain) => DependsOn::Domain(domain),
        Request::Search(search) => DependsOn::of_filter(&search.filter),
    }
}
