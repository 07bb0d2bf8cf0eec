//! Caches key records, in this process alone.
//!
//! A record is used for [`FRESH`], and refreshed in the background from [`REFRESH`] on; after that
//! a request waits for a lookup. If the lookup fails, or the database is known to be unavailable,
//! the old record serves for up to [`IF_UPSTREAM_FAILS`]. A record whose key is known to have
//! changed since it was read never serves: it is reloaded as soon as a poll finds the change, and
//! while it cannot be read, requests with that key are refused.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use moka::ops::compute::Op;
use moka::sync::Cache;

use super::auth_error::{AuthDenied, NotAuthenticated};
use super::lookup_limiter::LookupLimiter;
use super::record_loader::RecordLoader;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::{ApiKeyRecord, KeyHash, Timestamp};
use crate::sync::SingleFlight;
use crate::upstream::{ChangedKeys, DependsOn, LoadStart, ReadStamp, UpstreamClient};

/// The age from which a record is refreshed in the background.
const REFRESH: Duration = Duration::from_secs(45);

/// The age up to which a record is used without waiting for a lookup.
const FRESH: Duration = Duration::from_secs(60);

/// The age up to which a record serves while the upstream fails.
const IF_UPSTREAM_FAILS: Duration = Duration::from_secs(15 * 60);

/// How long a key is cached as unknown, unless the change log reports it before.
const UNKNOWN: Duration = Duration::from_secs(10);

/// How many records are cached.
const MAX_RECORDS: u64 = 200_000;

/// How many unknown keys are cached, in a cache of their own, so that they evict no record.
const MAX_UNKNOWN_KEYS: u64 = 10_000;

/// How many records of changed keys are reloaded concurrently.
const MAX_RELOADS: usize = 128;

type LookupResult = Result<Option<Arc<CachedRecord>>, NotAuthenticated>;

#[derive(Debug)]
struct CachedRecord {
    record: Arc<ApiKeyRecord>,
    seen: ReadStamp,
    /// When the lookup began.
    looked_up: Instant,
    /// Whether the key is known to have changed since. Never becomes false: the reloaded record
    /// replaces this one.
    must_reload: AtomicBool,
}

impl CachedRecord {
    fn must_reload(&self) -> bool {
        self.must_reload.load(Ordering::Relaxed)
    }

    /// Whether it serves if it can't be reloaded.
    fn serves_if_upstream_fails(&self) -> bool {
        !self.must_reload() && self.looked_up.elapsed() < IF_UPSTREAM_FAILS
    }
}

/// The cached records of one replica.
pub(super) struct Records {
    upstream: Arc<UpstreamClient>,
    known: Cache<KeyHash, Arc<CachedRecord>>,
    unknown: Cache<KeyHash, Arc<ReadStamp>>,
    flights: SingleFlight<KeyHash, LookupResult, LoadStart>,
    lookup_limiter: LookupLimiter,
    record_loader: RecordLoader,
    metrics: Arc<Metrics>,
}

impl Records {
    pub(super) fn new(upstream: Arc<UpstreamClient>, metrics: Arc<Metrics>) -> Self {
        Self {
            record_loader: RecordLoader::new(Arc::clone(&upstream)),
            upstream,
            known: Cache::builder()
                .max_capacity(MAX_RECORDS)
                .time_to_live(IF_UPSTREAM_FAILS)
                .build(),
            unknown: Cache::builder().max_capacity(MAX_UNKNOWN_KEYS).time_to_live(UNKNOWN).build(),
            flights: SingleFlight::new("key_lookups"),
            lookup_limiter: LookupLimiter::new(),
            metrics,
        }
    }

    /// The numbers of cached records and of cached unknown keys.
    pub(super) fn cached_counts(&self) -> (u64, u64) {
        // The caches update their counts in the background. Without requests they need this call.
        self.known.run_pending_tasks();
        self.unknown.run_pending_tasks();
        (self.known.entry_count(), self.unknown.entry_count())
    }

    /// The time by the upstream's clock.
    pub(super) fn now(&self) -> Timestamp {
        self.upstream.now()
    }

    /// The record of the key with this hash. A key without a cached record is looked up only if
    /// `has_format` tells that it has the format of a key.
    pub(super) async fn get(
        &self,
        hash: &KeyHash,
        has_format: impl FnOnce() -> bool,
    ) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        let Some(known) = self.known.get(hash) else {
            if !has_format() {
                return Err(AuthDenied::Malformed.into());
            }
            // Boxed like the lookup below, since both are rare and would enlarge the future of each
            // request.
            return Box::pin(self.get_uncached(hash)).await;
        };
        let age = known.looked_up.elapsed();
        if age < FRESH && !known.must_reload() && self.is_current(hash, &known.seen) {
            if age >= REFRESH && self.upstream.is_in_use() {
                self.flights.spawn(hash, self.upstream.load_start(), || self.look_up(*hash));
            }
            return Ok(Arc::clone(&known.record));
        }
        // No request waits for a database that is known to be unavailable.
        if !self.upstream.is_in_use() && known.serves_if_upstream_fails() {
            return Ok(Arc::clone(&known.record));
        }
        match Box::pin(self.share(hash, self.look_up(*hash))).await {
            Ok(Some(found)) => Ok(Arc::clone(&found.record)),
            Ok(None) => Err(AuthDenied::Unknown.into()),
            Err(_) if known.serves_if_upstream_fails() => Ok(Arc::clone(&known.record)),
            Err(error) => Err(error),
        }
    }

    async fn get_uncached(&self, hash: &KeyHash) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        if self.unknown.get(hash).is_some_and(|seen| self.is_current(hash, &seen)) {
            return Err(AuthDenied::Unknown.into());
        }
        let found = self.share(hash, self.limited_look_up(*hash)).await?;
        Ok(Arc::clone(&found.ok_or(AuthDenied::Unknown)?.record))
    }

    /// Shares a lookup that is under way, or begins `look_up` if there is none that sees each change
    /// that this caller must see.
    async fn share(
        &self,
        hash: &KeyHash,
        look_up: impl Future<Output = LookupResult> + Send + 'static,
    ) -> LookupResult {
        let start = self.upstream.load_start();
        let may_share = |load: &LoadStart| self.upstream.may_share(DependsOn::Key(hash), load);
        self.flights.run_if(hash, start, may_share, || look_up).await?.value
    }

    /// A lookup with a permit, which is taken in the flight, so that callers that join it need
    /// none.
    fn limited_look_up(&self, hash: KeyHash) -> impl Future<Output = LookupResult> + Send + use<> {
        let (lookup_limiter, metrics) = (self.lookup_limiter.clone(), Arc::clone(&self.metrics));
        let look_up = self.look_up(hash);
        async move {
            let Some(permit) = lookup_limiter.acquire().await else {
                metrics.count(CacheEvent::KeyLookUpRefused);
                return Err(NotAuthenticated::TooManyUnknown);
            };
            let found = look_up.await?;
            if found.is_some() {
                permit.mark_found();
            }
            Ok(found)
        }
    }

    /// Marks the records of keys that polls report as changed and reloads them at once, up to
    /// [`MAX_RELOADS`] concurrently. Runs forever.
    pub(super) async fn follow_changes(&self) {
        // After a panic: the keys that were taken then and are not marked or reloaded yet.
        let mut waiting = VecDeque::from(self.mark(ChangedKeys::All));
        let mut reloads = FuturesUnordered::new();
        loop {
            let free = MAX_RELOADS - reloads.len();
            let begun = waiting.drain(..free.min(waiting.len()));
            reloads.extend(begun.map(|hash| self.reload(hash)));
            tokio::select! {
                changed = self.upstream.changed_keys() => waiting.extend(self.mark(changed)),
                Some(()) = reloads.next(), if !reloads.is_empty() => {}
            }
        }
    }

    /// Marks the cached records of changed keys that lack the change. Returns the hashes of these
    /// and of those that were marked before.
    fn mark(&self, changed: ChangedKeys) -> Vec<KeyHash> {
        let mut marked = Vec::new();
        let mut mark = |hash: KeyHash, known: &CachedRecord| {
            let about = DependsOn::Key(&hash);
            if known.must_reload() || self.upstream.is_known_to_have_changed(about, &known.seen) {
                known.must_reload.store(true, Ordering::Relaxed);
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

    /// Reloads a marked record.
    async fn reload(&self, hash: KeyHash) {
        if self.known.get(&hash).is_some_and(|known| known.must_reload()) {
            // A failure has been counted; the next request with this key retries.
            let _ = self.share(&hash, self.look_up(hash)).await;
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
            let event =
                if read.is_ok() { CacheEvent::KeyLookedUp } else { CacheEvent::KeyLookUpFailed };
            metrics.count(event);
            let read = read.map_err(NotAuthenticated::Unavailable)?;
            let Some(record) = read.value else {
                known.entry(hash).and_compute_with(|present| match present {
                    Some(present) if present.value().looked_up > looked_up => Op::Nop,
                    _ => Op::Remove,
                });
                unknown.insert(hash, Arc::new(read.seen));
                return Ok(None);
            };
            let about = DependsOn::Key(&hash);
            let was_marked = known.get(&hash).is_some_and(|known| known.must_reload());
            let must_reload = was_marked && !upstream.is_current(about, &read.seen);
            let found = Arc::new(CachedRecord {
                record: Arc::new(record),
                seen: read.seen,
                looked_up,
                must_reload: AtomicBool::new(must_reload),
            });
            // An earlier lookup may end later.
            known.entry(hash).and_compute_with(|present| match present {
                Some(present) if present.value().looked_up > looked_up => Op::Nop,
                _ => Op::Put(Arc::clone(&found)),
            });
            // Checked after the insertion: a poll before it has marked the record that this one
            // replaced, and a poll after it marks this one.
            if upstream.is_known_to_have_changed(about, &found.seen) {
                found.must_reload.store(true, Ordering::Relaxed);
            }
            unknown.invalidate(&hash);
            Ok(Some(found))
        }
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
