//! Decides which entries may be served: by their age, by the changes that are known to have
//! happened since they were read, and by what this replica has found to be deleted.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::freshness::{Ages, Freshness};
use super::local::LocalCache;
use crate::config::CacheConfig;
use crate::registry::Request;
use crate::upstream::{BootInstant, Currency, DependsOn, ReadStamp, ReadStart, UpstreamClient};

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

    pub(super) fn classify(&self, request: &Request, entry: &Entry, now: BootInstant) -> Freshness {
        self.ages(request, entry).classify(now.since(entry.seen.began))
    }

    /// How current a read with this stamp is.
    pub(super) fn currency(
        &self,
        request: &Request,
        seen: &ReadStamp,
        now: BootInstant,
    ) -> Currency {
        self.upstream.currency(depends_on(request), seen, now)
    }

    pub(super) fn is_outdated(&self, request: &Request, seen: &ReadStamp) -> bool {
        self.currency(request, seen, BootInstant::now()) == Currency::Outdated
    }

    /// Whether a request that is made now may get the result of a load that began then.
    pub(super) fn may_share(&self, request: &Request, load: &ReadStart) -> bool {
        self.upstream.log.may_share(depends_on(request), load)
    }

    /// How current the read is that found no result for the request, if one is remembered.
    pub(super) fn absence(&self, request: &Request) -> Option<Currency> {
        let seen = self.local.not_found(request)?;
        Some(self.currency(request, &seen, BootInstant::now()))
    }

    /// Whether an entry may be served without a read, possibly with a refresh.
    pub(super) fn is_servable(&self, request: &Request, entry: &Entry) -> bool {
        self.classify(request, entry, BootInstant::now()) <= Freshness::Stale
            && !self.is_outdated(request, &entry.seen)
            && !self.local.is_deleted(request, entry)
    }

    /// Whether an entry needs no refresh.
    pub(super) fn is_fresh(&self, request: &Request, entry: &Entry) -> bool {
        let now = BootInstant::now();
        self.classify(request, entry, now) == Freshness::Fresh
            && self.currency(request, &entry.seen, now) == Currency::Confirmed
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
