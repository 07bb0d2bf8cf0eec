//! Key records, which are kept in this process alone.
//!
//! A record is used for [`FRESH`], and refreshed in the background from [`REFRESH`] on; after that
//! a request waits for the look-up. If that fails, or the database is known to be unavailable, the
//! old record serves for [`IF_UPSTREAM_FAILS`] at most. A record whose key is known to have changed
//! since it was read never serves: it is read again as soon as a poll finds the change, and while
//! it cannot be read, requests with that key are refused.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use moka::sync::Cache;

use super::authenticator::{AuthDenied, NotAuthenticated};
use super::lookup_limiter::LookupLimiter;
use super::record_loader::RecordLoader;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::{ApiKeyRecord, KeyHash, Timestamp};
use crate::sync::SingleFlight;
use crate::upstream::{ChangedKeys, DependsOn, ReadStamp, UpstreamClient};

/// How long a record is used without another look-up behind.
const REFRESH: Duration = Duration::from_secs(45);

/// How long a record is used without waiting for another look-up.
const FRESH: Duration = Duration::from_secs(60);

/// How long a record serves while the upstream fails.
const IF_UPSTREAM_FAILS: Duration = Duration::from_secs(15 * 60);

/// How long a key is remembered to be unknown, where no change log says more.
const UNKNOWN: Duration = Duration::from_secs(10);

/// Known records kept.
const RECORDS: u64 = 200_000;

/// Unknown keys remembered: a small budget of their own, so that junk pushes out no record.
const UNKNOWN_KEYS: u64 = 10_000;

/// Records of changed keys that are read again at once.
const MAX_RE_READS: usize = 128;

type LookupResult = Result<Option<Arc<CachedRecord>>, NotAuthenticated>;

#[derive(Debug)]
struct CachedRecord {
    record: Arc<ApiKeyRecord>,
    seen: ReadStamp,
    looked_up: Instant,
    /// The key is known to have changed since. It never becomes false: the record that is read
    /// instead takes this one's place.
    must_be_read: AtomicBool,
}

impl CachedRecord {
    fn must_be_read(&self) -> bool {
        self.must_be_read.load(Ordering::Relaxed)
    }

    /// Whether it serves though it could not be read again.
    fn serves_if_upstream_fails(&self) -> bool {
        !self.must_be_read() && self.looked_up.elapsed() < IF_UPSTREAM_FAILS
    }
}

/// The records of one replica.
pub(super) struct Records {
    upstream: Arc<UpstreamClient>,
    known: Cache<KeyHash, Arc<CachedRecord>>,
    unknown: Cache<KeyHash, Arc<ReadStamp>>,
    flights: SingleFlight<KeyHash, LookupResult>,
    lookup_limiter: LookupLimiter,
    record_loader: RecordLoader,
    metrics: Arc<Metrics>,
}

impl Records {
    pub(super) fn new(upstream: Arc<UpstreamClient>, metrics: Arc<Metrics>) -> Self {
        Self {
            record_loader: RecordLoader::new(Arc::clone(&upstream)),
            upstream,
            known: Cache::builder().max_capacity(RECORDS).time_to_live(IF_UPSTREAM_FAILS).build(),
            unknown: Cache::builder().max_capacity(UNKNOWN_KEYS).time_to_live(UNKNOWN).build(),
            flights: SingleFlight::default(),
            lookup_limiter: LookupLimiter::new(),
            metrics,
        }
    }

    /// Known and unknown keys remembered.
    pub(super) fn remembered(&self) -> (u64, u64) {
        // They count behind, and otherwise only while they are used.
        self.known.run_pending_tasks();
        self.unknown.run_pending_tasks();
        (self.known.entry_count(), self.unknown.entry_count())
    }

    /// The time by the upstream's clock.
    pub(super) fn now(&self) -> Timestamp {
        self.upstream.now()
    }

    /// The record of the key with this hash. Only keys that have a key's form are looked up, so
    /// whether this one `has_form` is asked only where it is not known.
    pub(super) async fn get(
        &self,
        hash: &KeyHash,
        has_form: impl FnOnce() -> bool,
    ) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        let Some(known) = self.known.get(hash) else {
            if !has_form() {
                return Err(AuthDenied::Malformed.into());
            }
            // Boxed like the look-up below: rare, and every request would carry the room for it.
            return Box::pin(self.never_seen(hash)).await;
        };
        let age = known.looked_up.elapsed();
        if age < FRESH && !known.must_be_read() && self.is_current(hash, &known.seen) {
            if age >= REFRESH && self.upstream.is_in_use() {
                self.flights.spawn(hash, || self.look_up(*hash));
            }
            return Ok(Arc::clone(&known.record));
        }
        // Nobody waits for a database that is known to be unavailable.
        if !self.upstream.is_in_use() && known.serves_if_upstream_fails() {
            return Ok(Arc::clone(&known.record));
        }
        match Box::pin(self.flights.run(hash, || self.look_up(*hash))).await?.value {
            Ok(Some(found)) => Ok(Arc::clone(&found.record)),
            Ok(None) => Err(AuthDenied::Unknown.into()),
            Err(_) if known.serves_if_upstream_fails() => Ok(Arc::clone(&known.record)),
            Err(error) => Err(error),
        }
    }

    async fn never_seen(&self, hash: &KeyHash) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        if self.unknown.get(hash).is_some_and(|seen| self.is_current(hash, &seen)) {
            return Err(AuthDenied::Unknown.into());
        }
        let found = self.flights.run(hash, || self.first_look(*hash)).await?.value?;
        Ok(Arc::clone(&found.ok_or(AuthDenied::Unknown)?.record))
    }

    /// Leave is taken in the flight, so that those who join a look-up need none.
    fn first_look(&self, hash: KeyHash) -> impl Future<Output = LookupResult> + Send + use<> {
        let (lookup_limiter, metrics) = (self.lookup_limiter.clone(), Arc::clone(&self.metrics));
        let look_up = self.look_up(hash);
        async move {
            let Some(first_look) = lookup_limiter.begin().await else {
                metrics.count(CacheEvent::KeyLookUpRefused);
                return Err(NotAuthenticated::TooManyUnknown);
            };
            let found = look_up.await?;
            if found.is_some() {
                first_look.found();
            }
            Ok(found)
        }
    }

    /// Marks the records of keys that polls find to be changed, and reads them again at once, so
    /// many at a time. Runs for ever.
    pub(super) async fn follow_changes(&self) {
        let (mut waiting, mut re_reads) = (VecDeque::new(), FuturesUnordered::new());
        loop {
            tokio::select! {
                changed = self.upstream.changed_keys() => waiting.extend(self.mark(changed)),
                Some(()) = re_reads.next(), if !re_reads.is_empty() => {}
            }
            let room = MAX_RE_READS - re_reads.len();
            let begun = waiting.drain(..room.min(waiting.len()));
            re_reads.extend(begun.map(|hash| self.read_again(hash)));
        }
    }

    /// Marks those records of changed keys that lack the change, and gives their hashes.
    fn mark(&self, changed: ChangedKeys) -> Vec<KeyHash> {
        let mut marked = Vec::new();
        let mut mark = |hash: KeyHash, known: &CachedRecord| {
            if self.upstream.is_known_to_have_changed(DependsOn::Key(&hash), &known.seen) {
                known.must_be_read.store(true, Ordering::Relaxed);
                marked.push(hash);
            }
        };
        match changed {
            ChangedKeys::All => self.known.iter().for_each(|(hash, known)| mark(*hash, &known)),
            ChangedKeys::These(hashes) => {
                for hash in hashes {
                    if let Some(known) = self.known.get(&hash) {
                        mark(hash, &known);
                    }
                }
            }
        }
        marked
    }

    /// Reads a marked record. Twice where the look-up that it joins began before the change.
    async fn read_again(&self, hash: KeyHash) {
        for _ in 0..2 {
            if !self.known.get(&hash).is_some_and(|known| known.must_be_read()) {
                return;
            }
            // A failure has been counted; the next request with this key tries again.
            let _ = self.flights.run(&hash, || self.look_up(hash)).await;
        }
    }

    fn is_current(&self, hash: &KeyHash, seen: &ReadStamp) -> bool {
        self.upstream.is_current(DependsOn::Key(hash), seen)
    }

    fn look_up(&self, hash: KeyHash) -> impl Future<Output = LookupResult> + Send + use<> {
        let (record_loader, metrics) = (self.record_loader.clone(), Arc::clone(&self.metrics));
        let (known, unknown) = (self.known.clone(), self.unknown.clone());
        let upstream = Arc::clone(&self.upstream);
        async move {
            let looked_up = Instant::now();
            let read = record_loader.record(hash).await;
            metrics.count(CacheEvent::KeyLookUp { failed: read.is_err() });
            let read = read.map_err(NotAuthenticated::Unavailable)?;
            let Some(record) = read.value else {
                known.invalidate(&hash);
                unknown.insert(hash, Arc::new(read.seen));
                return Ok(None);
            };
            let must_be_read = {
                let (about, seen) = (DependsOn::Key(&hash), &read.seen);
                let was_marked = known.get(&hash).is_some_and(|known| known.must_be_read());
                upstream.is_known_to_have_changed(about, seen)
                    || (was_marked && !upstream.is_current(about, seen))
            };
            let found = Arc::new(CachedRecord {
                record: Arc::new(record),
                seen: read.seen,
                looked_up,
                must_be_read: AtomicBool::new(must_be_read),
            });
            known.insert(hash, Arc::clone(&found));
            unknown.invalidate(&hash);
            Ok(Some(found))
        }
    }
}
