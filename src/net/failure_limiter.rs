//! Limits how often each source may fail: look up API keys that do not exist, or log in with invalid
//! tokens. Only failures are counted, and only sources that have failed lately take memory.
//!
//! A source has a token bucket. An IPv6 source has two: one for its network of 64 bits, and one for
//! its network of 48 bits, which bounds what a site with many networks gains by using them all. The
//! table of buckets takes 1 MiB.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::RequestSource;
use crate::sync::{LogThrottle, lock};

/// How many networks are told apart. Without a free bucket, a new one shares that of another.
const MAX_SOURCES: usize = 65_536;

/// The table is set-associative: a hash chooses the set of buckets, which is searched.
const BUCKETS_PER_SET: usize = 8;

/// A network of 48 bits may fail as often as this many networks of 64 bits.
const NETWORKS_PER_SITE: u64 = 16;

/// Counts the failures of sources.
#[derive(Debug)]
pub(crate) struct FailureLimiter {
    /// What fails, for the log.
    what: &'static str,
    /// The time in which a used-up bucket is full again, in ns.
    refill_time: u64,
    /// The part of it that one failure takes, in ns.
    cost: u64,
    started: Instant,
    hasher: RandomState,
    /// Empty until the first failure.
    buckets: Mutex<Vec<Bucket>>,
    log_throttle: LogThrottle,
}

/// The token bucket of one network: instead of its tokens, the time at which it is full again (the
/// generic cell rate algorithm). A full one is free for another network.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// A hash of the network.
    network: u64,
    /// In ns since the limiter's start.
    full_at: u64,
}

/// A network that a failure is counted for.
#[derive(Debug, Clone, Copy)]
struct Charge {
    network: u64,
    cost: u64,
}

impl FailureLimiter {
    /// Lets each source fail `burst` times at once and `per_second` times a second on average.
    pub(crate) fn new(what: &'static str, burst: u32, per_second: u32) -> Self {
        let cost = nanoseconds(Duration::from_secs(1)) / u64::from(per_second.max(1));
        Self {
            what,
            refill_time: cost * u64::from(burst),
            cost,
            started: Instant::now(),
            hasher: RandomState::new(),
            buckets: Mutex::default(),
            log_throttle: LogThrottle::default(),
        }
    }

    /// Whether `source` may fail once more. Counts nothing.
    pub(crate) fn is_within_budget(&self, source: RequestSource) -> bool {
        let is_within = self.is_within_budget_at(source, Instant::now());
        if !is_within && self.log_throttle.is_due() {
            tracing::warn!(
                source = %source.network(),
                failures = self.what,
                "this source fails too often: it is served last, or refused. If it is a proxy, list \
                 it in server.trusted_proxies; else block it"
            );
        }
        is_within
    }

    fn is_within_budget_at(&self, source: RequestSource, now: Instant) -> bool {
        let (charges, now) = (self.charges(source), self.since_start(now));
        let buckets = lock(&self.buckets);
        let is_within = |charge: &Charge| {
            let bucket = buckets[bucket_index(&buckets, charge.network, now)];
            bucket.full_at.saturating_sub(now) + charge.cost <= self.refill_time
        };
        buckets.is_empty() || charges.iter().flatten().all(is_within)
    }

    /// Counts a failure of `source`, also beyond its budget: what was begun within the budget, at the
    /// same time, delays what follows.
    pub(crate) fn count(&self, source: RequestSource) {
        self.count_at(source, Instant::now());
    }

    fn count_at(&self, source: RequestSource, now: Instant) {
        let now = self.since_start(now);
        let mut buckets = lock(&self.buckets);
        if buckets.is_empty() {
            buckets.resize(MAX_SOURCES, Bucket::default());
        }
        for charge in self.charges(source).into_iter().flatten() {
            let index = bucket_index(&buckets, charge.network, now);
            buckets[index].add(charge, now);
        }
    }

    fn charges(&self, source: RequestSource) -> [Option<Charge>; 2] {
        let hash = |network, is_site: bool| self.hasher.hash_one((network, is_site));
        let own = Charge { network: hash(source.network(), false), cost: self.cost };
        let site = source
            .site()
            .map(|site| Charge { network: hash(site, true), cost: self.cost / NETWORKS_PER_SITE });
        [Some(own), site]
    }

    fn since_start(&self, now: Instant) -> u64 {
        nanoseconds(now.saturating_duration_since(self.started))
    }
}

impl Bucket {
    fn add(&mut self, charge: Charge, now: u64) {
        if self.full_at <= now {
            *self = Self { network: charge.network, full_at: now };
        }
        self.full_at += charge.cost;
    }
}

/// The index of the network's bucket; else of a free one in its set; else of the one that has failed
/// least.
fn bucket_index(buckets: &[Bucket], network: u64, now: u64) -> usize {
    let sets = (buckets.len() / BUCKETS_PER_SET) as u64;
    let first = (network % sets) as usize * BUCKETS_PER_SET;
    let set = first..first + BUCKETS_PER_SET;
    let is_own =
        |index: &usize| buckets[*index].network == network && buckets[*index].full_at > now;
    let own = set.clone().find(is_own);
    let least = || set.min_by_key(|index| buckets[*index].full_at);
    own.or_else(least).unwrap_or(first)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const BURST: u32 = 30;

    fn limiter() -> FailureLimiter {
        FailureLimiter::new("tests", BURST, 1)
    }

    fn source(text: &str) -> RequestSource {
        RequestSource::of(text.parse().expect("an address"))
    }

    /// Whether a failure is within the budget; then it is counted.
    fn try_count_at(limiter: &FailureLimiter, source: RequestSource, now: Instant) -> bool {
        let is_within = limiter.is_within_budget_at(source, now);
        if is_within {
            limiter.count_at(source, now);
        }
        is_within
    }

    /// How many of `count` failures one after another are within the budget.
    fn counted(limiter: &FailureLimiter, source: RequestSource, count: u32, now: Instant) -> u32 {
        (0..count).map(|_| u32::from(try_count_at(limiter, source, now))).sum()
    }

    #[test]
    fn each_source_has_a_burst_and_a_rate_of_its_own() {
        let (limiter, start) = (limiter(), Instant::now());
        let at = |s| start + Duration::from_secs(s);
        let (one, other) = (source("10.0.0.1"), source("10.0.0.2"));
        assert_eq!(counted(&limiter, one, 100, start), BURST);
        assert_eq!(counted(&limiter, one, 100, at(5)), 5, "one returns each second");
        assert_eq!(counted(&limiter, source("::ffff:10.0.0.1"), 1, at(5)), 0, "the same source");
        assert_eq!(counted(&limiter, other, 100, at(5)), BURST);
        assert_eq!(counted(&limiter, one, 100, at(3600)), BURST, "never more than the burst");
    }

    #[test]
    fn failures_beyond_the_budget_delay_later_ones() {
        let (limiter, start, one) = (limiter(), Instant::now(), source("2001:db8::1"));
        for _ in 0..1000 {
            assert!(limiter.is_within_budget_at(one, start), "asking costs nothing");
        }
        // Begun together.
        for _ in 0..2 * BURST {
            limiter.count_at(one, start);
        }
        let at = |s| start + Duration::from_secs(s);
        assert!(!limiter.is_within_budget_at(one, at(u64::from(BURST))));
        assert_eq!(counted(&limiter, one, 100, at(u64::from(BURST) + 1)), 1);
    }

    #[test]
    fn an_ipv6_source_is_a_network_and_a_site_has_a_larger_budget() {
        let (limiter, start) = (limiter(), Instant::now());
        let in_network =
            |network: u32, host: u32| source(&format!("2001:db8:1:{network:x}::{host:x}"));
        let from_one: u32 =
            (0..100).map(|host| counted(&limiter, in_network(0, host), 1, start)).sum();
        assert_eq!(from_one, BURST);
        let from_site: u32 =
            (1..1000).map(|network| counted(&limiter, in_network(network, 1), 100, start)).sum();
        assert_eq!(from_one + from_site, BURST * 16);
        assert_eq!(counted(&limiter, source("2001:db8:2::1"), 100, start), BURST, "another site");
    }

    #[test]
    fn a_full_table_keeps_its_size_and_every_source_has_a_bucket() {
        let (limiter, start) = (limiter(), Instant::now());
        let address = |number: u32| RequestSource::of(IpAddr::V4(Ipv4Addr::from_bits(number)));
        let many = 4 * MAX_SOURCES as u32;
        for number in 0..many {
            limiter.count_at(address(number), start);
        }
        assert_eq!(lock(&limiter.buckets).len(), MAX_SOURCES);
        assert!(counted(&limiter, address(many), 1000, start) > 0, "it shares a bucket");
        assert!(counted(&limiter, address(many + 1), 1000, start) < 8 * BURST);
        let later = start + Duration::from_secs(3600);
        assert_eq!(
            counted(&limiter, address(many), 100, later),
            BURST,
            "full buckets are taken over"
        );
    }
}
