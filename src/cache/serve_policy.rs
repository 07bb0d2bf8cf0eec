//! Decides which entries may be served: by their age, by the changes that are known to have
//! happened since they were read, and by what this replica has found to be deleted.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::local::LocalCache;
use crate::config::{AgesConfig, CacheConfig};
use crate::registry::Request;
use crate::upstream::{BootInstant, Currency, DependsOn, ReadStamp, UpstreamClient};

/// How long an entry that was never refreshed is kept in Redis at least.
const MIN_SHARED: Duration = Duration::from_secs(3_600);

/// The local cache and all that the decisions depend on.
pub(super) struct ServePolicy {
    pub(super) local: LocalCache,
    pub(super) upstream: Arc<UpstreamClient>,
    search: Ages,
    phenotype: Ages,
    insights: Ages,
    counts: Ages,
}

impl ServePolicy {
    pub(super) fn new(config: &CacheConfig, upstream: Arc<UpstreamClient>) -> Self {
        let [search, phenotype, insights] =
            [config.search, config.phenotype, config.insights].map(Ages::from);
        // So young that a page that is read with it stays fresh for half of the usual time.
        let counts = Ages::only_fresh(search.fresh / 2);
        Self { local: LocalCache::new(config), upstream, search, phenotype, insights, counts }
    }

    /// The ages of an entry, with its jitter.
    pub(super) fn ages(&self, request: &Request, entry: &Entry) -> Ages {
        let ages = match request {
            Request::Search(_) => &self.search,
            Request::Phenotype(_) => &self.phenotype,
            Request::Insights(_) | Request::Numbers => &self.insights,
            Request::Counts(_) => &self.counts,
        };
        ages.shortened(entry.ttl_jitter)
    }

    /// How long an entry is kept in Redis from now on: long only if it was refreshed, which shows
    /// that it is requested repeatedly, and has genes.
    pub(super) fn shared_lifetimes(&self, request: &Request, entry: &Entry) -> SharedLifetimes {
        let ages = self.ages(request, entry);
        let longest = ages.if_error.saturating_sub(entry.seen.began.elapsed());
        if entry.is_empty_page() {
            let short = ages.stale.min(longest);
            return SharedLifetimes { first: short, replacement: short };
        }
        SharedLifetimes { first: ages.first_shared.min(longest), replacement: longest }
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
        self.upstream.log.currency(depends_on(request), seen, now)
    }

    pub(super) fn is_outdated(&self, request: &Request, seen: &ReadStamp) -> bool {
        self.currency(request, seen, BootInstant::now()) == Currency::Outdated
    }

    /// How current the read is that found no result for the request, if one is remembered.
    pub(super) fn absence(&self, request: &Request) -> Option<Currency> {
        let seen = self.local.not_found.get(request)?;
        Some(self.currency(request, &seen, BootInstant::now()))
    }

    /// Whether an entry may be served without a read, possibly with a refresh.
    pub(super) fn is_servable(&self, request: &Request, entry: &Entry) -> bool {
        self.classify(request, entry, BootInstant::now()) <= Freshness::Stale
            && !self.is_outdated(request, &entry.seen)
    }

    /// Whether an entry needs no refresh.
    pub(super) fn is_fresh(&self, request: &Request, entry: &Entry) -> bool {
        let now = BootInstant::now();
        self.classify(request, entry, now) == Freshness::Fresh
            && self.currency(request, &entry.seen, now) == Currency::Confirmed
    }
}

pub(super) fn depends_on(request: &Request) -> DependsOn<'_> {
    match request {
        Request::Phenotype(id) => DependsOn::Gene(*id),
        Request::Insights(domain) => DependsOn::Domain(domain),
        Request::Numbers => DependsOn::Nothing,
        Request::Search(search) => DependsOn::of_filter(&search.filter),
        Request::Counts(filter) => DependsOn::of_filter(filter),
    }
}

/// The three ages of one kind of entry, all counted from the read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ages {
    /// Younger entries are fresh.
    pub(super) fresh: Duration,
    /// Younger entries are stale: served while they are refreshed in the background.
    pub(super) stale: Duration,
    /// Younger entries are served only while the upstream fails.
    pub(super) if_error: Duration,
    /// How long an entry that was never refreshed is kept in Redis.
    first_shared: Duration,
}

/// How long an entry is kept in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharedLifetimes {
    /// If Redis has none for its request yet.
    pub(super) first: Duration,
    /// If it replaces one.
    pub(super) replacement: Duration,
}

/// How an entry of some age may be used, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Freshness {
    /// It is served.
    Fresh,
    /// It is served, and refreshed in the background.
    Stale,
    /// It is served only while the upstream fails.
    IfError,
    /// It is never served.
    Expired,
}

impl Ages {
    /// Those of an entry that is never served stale.
    fn only_fresh(fresh: Duration) -> Self {
        Self { fresh, stale: fresh, if_error: fresh, first_shared: fresh }
    }

    pub(super) fn classify(&self, age: Duration) -> Freshness {
        if age < self.fresh {
            Freshness::Fresh
        } else if age < self.stale {
            Freshness::Stale
        } else if age < self.if_error {
            Freshness::IfError
        } else {
            Freshness::Expired
        }
    }

    /// These ages, shortened by `thousandths` of themselves; values above 1000 count as 1000.
    pub(super) fn shortened(&self, thousandths: u32) -> Self {
        let shorten = |age: Duration| age * (1000 - thousandths.min(1000)) / 1000;
        Self {
            fresh: shorten(self.fresh),
            stale: shorten(self.stale),
            if_error: shorten(self.if_error),
            first_shared: shorten(self.first_shared),
        }
    }
}

impl From<AgesConfig> for Ages {
    fn from(config: AgesConfig) -> Self {
        let seconds = Duration::from_secs;
        let stale = seconds(config.fresh_s.saturating_add(config.stale_s));
        Self {
            fresh: seconds(config.fresh_s),
            stale,
            if_error: seconds(config.if_error_s),
            first_shared: stale.max(MIN_SHARED),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AGES: AgesConfig = AgesConfig { fresh_s: 30, stale_s: 20, if_error_s: 100 };

    #[test]
    fn each_age_ends_where_the_next_begins() {
        let ages = Ages::from(AGES);
        for (ms, expected) in [
            (0, Freshness::Fresh),
            (29_999, Freshness::Fresh),
            (30_000, Freshness::Stale),
            (49_999, Freshness::Stale),
            (50_000, Freshness::IfError),
            (99_999, Freshness::IfError),
            (100_000, Freshness::Expired),
        ] {
            assert_eq!(ages.classify(Duration::from_millis(ms)), expected, "{ms}");
        }
        assert_eq!(ages.shortened(200).classify(Duration::from_secs(24)), Freshness::Stale);
        assert_eq!(ages.shortened(200).classify(Duration::from_secs(80)), Freshness::Expired);
    }

    proptest! {
        #[test]
        fn freshness_only_decreases_with_age_and_with_jitter(
            a in 0..200_000_u64,
            b in 0..200_000_u64,
            thousandths in 0..=200_u32,
        ) {
            let (ages, younger, older) = (Ages::from(AGES), a.min(b), a.max(b));
            let at = |ages: &Ages, ms| ages.classify(Duration::from_millis(ms));
            prop_assert!(at(&ages, younger) <= at(&ages, older));
            prop_assert!(at(&ages, a) <= at(&ages.shortened(thousandths), a));
        }
    }
}
