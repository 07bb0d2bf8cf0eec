//! The records that a replica has cached, and what polls have found about their keys.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use moka::ops::compute::{CompResult, Op};
use moka::sync::Cache;

use crate::registry::{ApiKeyRecord, KeyHash};
use crate::upstream::{BootInstant, ChangedKeys, Currency, DependsOn, ReadStamp, UpstreamClient};

/// How long a record is kept without use.
const UNUSED: Duration = Duration::from_secs(24 * 3_600);

/// Shortest time between two lookups of an unconfirmed record.
const CONFIRMATION_INTERVAL: Duration = Duration::from_secs(2);

/// How long a key is cached as unknown, unless the change log reports it before.
const UNKNOWN: Duration = Duration::from_secs(10);

/// How many records are cached.
const MAX_RECORDS: u64 = 200_000;

/// How many unknown keys are cached, in a cache of their own, so that they evict no record.
const MAX_UNKNOWN_KEYS: u64 = 10_000;

/// A cached record.
#[derive(Debug)]
pub(super) struct CachedRecord {
    pub(super) record: Arc<ApiKeyRecord>,
    pub(super) seen: ReadStamp,
    /// The last poll that found a change of the key. A lookup must see what that poll saw.
    changed_by_poll: AtomicU64,
    /// When a request last had the unconfirmed record looked up, in ms of its age.
    confirmed_at_age_ms: AtomicI64,
}

impl CachedRecord {
    pub(super) fn new(record: ApiKeyRecord, seen: ReadStamp, changed_by_poll: u64) -> Self {
        let changed_by_poll = AtomicU64::new(changed_by_poll);
        let confirmed_at_age_ms = AtomicI64::new(0);
        Self { record: Arc::new(record), seen, changed_by_poll, confirmed_at_age_ms }
    }

    fn changed_by_poll(&self) -> u64 {
        self.changed_by_poll.load(Ordering::Relaxed)
    }

    /// Whether the key is known to have changed since.
    pub(super) fn must_reload(&self) -> bool {
        !self.seen.shows_poll(self.changed_by_poll())
    }

    /// Whether this call is the one that shall have the unconfirmed record looked up.
    pub(super) fn shall_confirm(&self, age: Duration) -> bool {
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let before = self.confirmed_at_age_ms.load(Ordering::Relaxed);
        age_ms - before >= CONFIRMATION_INTERVAL.as_millis() as i64
            && self
                .confirmed_at_age_ms
                .compare_exchange(before, age_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// The cached records of one replica. Cheap to clone.
#[derive(Clone)]
pub(super) struct RecordStore {
    known: Cache<KeyHash, Arc<CachedRecord>>,
    unknown: Cache<KeyHash, Arc<ReadStamp>>,
    upstream: Arc<UpstreamClient>,
}

impl RecordStore {
    pub(super) fn new(upstream: Arc<UpstreamClient>) -> Self {
        Self {
            known: Cache::builder().max_capacity(MAX_RECORDS).time_to_idle(UNUSED).build(),
            unknown: Cache::builder().max_capacity(MAX_UNKNOWN_KEYS).time_to_live(UNKNOWN).build(),
            upstream,
        }
    }

    /// The numbers of cached records and of cached unknown keys.
    pub(super) fn counts(&self) -> (u64, u64) {
        // The caches update their counts in the background. Without requests they need this call.
        self.known.run_pending_tasks();
        self.unknown.run_pending_tasks();
        (self.known.entry_count(), self.unknown.entry_count())
    }

    pub(super) fn get(&self, hash: &KeyHash) -> Option<Arc<CachedRecord>> {
        self.known.get(hash)
    }

    /// Whether the key was found to be unknown, and that is confirmed.
    pub(super) fn is_confirmed_unknown(&self, hash: &KeyHash) -> bool {
        self.unknown.get(hash).is_some_and(|seen| {
            let now = BootInstant::now();
            self.upstream.log.currency(DependsOn::Key(hash), &seen, now) == Currency::Confirmed
        })
    }

    /// Up to `max` keys whose records are at least this old, the oldest first.
    pub(super) fn older_than(&self, age: Duration, max: usize) -> Vec<KeyHash> {
        let now = BootInstant::now();
        let age_of = |known: &CachedRecord| now.since(known.seen.began);
        let old = self.known.iter().filter(|(_, known)| age_of(known) >= age);
        let mut old: Vec<_> = old.map(|(hash, known)| (age_of(&known), *hash)).collect();
        old.sort_unstable_by_key(|(age, _)| Reverse(*age));
        old.truncate(max);
        old.into_iter().map(|(_, hash)| hash).collect()
    }

    /// Marks the cached records of keys that the poll with this number found to be changed, unless
    /// they show the change. Returns the hashes of these and of those that were marked before.
    pub(super) fn mark(&self, changed: ChangedKeys, poll: u64) -> Vec<KeyHash> {
        let mark = |hash: KeyHash, known: &CachedRecord| {
            if self.upstream.log.shows_changes(DependsOn::Key(&hash), &known.seen) != Some(true) {
                known.changed_by_poll.fetch_max(poll, Ordering::Relaxed);
            }
            known.must_reload().then_some(hash)
        };
        match changed {
            ChangedKeys::All => {
                self.known.iter().filter_map(|(hash, known)| mark(*hash, &known)).collect()
            }
            ChangedKeys::These(hashes) => {
                let known = |hash| Some((hash, self.known.get(&hash)?));
                let known = hashes.into_iter().filter_map(known);
                known.filter_map(|(hash, known)| mark(hash, &known)).collect()
            }
        }
    }

    /// Stores what a lookup found, unless what is cached may show a later state. Returns what is cached
    /// then.
    pub(super) fn put(
        &self,
        hash: KeyHash,
        record: Option<ApiKeyRecord>,
        seen: ReadStamp,
    ) -> Option<Arc<CachedRecord>> {
        let order = seen.order();
        let is_proven = self.upstream.log.shows_changes(DependsOn::Key(&hash), &seen) == Some(true);
        let is_newer = |present: &CachedRecord| {
            let shows_change = || is_proven || seen.shows_poll(present.changed_by_poll());
            order.supersedes(&present.seen.order()) || (present.must_reload() && shows_change())
        };
        // For one key, lookups take turns here.
        let cached = self.known.entry(hash).and_compute_with(|present| {
            let present = present.as_ref().map(|present| present.value());
            let unknown = self.unknown.get(&hash);
            if present.is_some_and(|present| !is_newer(present))
                || unknown.is_some_and(|unknown| !order.supersedes(&unknown.order()))
            {
                return Op::Nop;
            }
            let Some(record) = record else {
                self.unknown.insert(hash, Arc::new(seen.clone()));
                return Op::Remove;
            };
            self.unknown.invalidate(&hash);
            let changed_by_poll = present.filter(|_| !is_proven);
            let changed_by_poll = changed_by_poll.map_or(0, |one| one.changed_by_poll());
            Op::Put(Arc::new(CachedRecord::new(record, seen.clone(), changed_by_poll)))
        });
        match cached {
            CompResult::Removed(_) => None,
            cached => cached.into_entry().map(|cached| cached.into_value()),
        }
    }
}
