//! Caches key records, in this process alone.
//!
//! While polls of the change log confirm a record, it is used; old ones are re-read in the background
//! all the same, many in one statement. An unconfirmed record is looked up again every two seconds,
//! and a request waits a little for that. Without a change log, ages decide. If a lookup fails, the
//! record serves for up to [`IF_UPSTREAM_FAILS`], unless its key is known to have changed: then
//! requests are refused until a lookup shows the change.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::auth_error::{AuthDenied, NotAuthenticated};
use super::lookup_limiter::LookupLimiter;
use super::record_loader::RecordLoader;
use super::record_store::{CachedRecord, RecordStore};
use crate::net::RequestSource;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::{ApiKeyRecord, KeyHash};
use crate::sync::SingleFlight;
use crate::upstream::{
    BootInstant, ChangedKeys, Currency, DependsOn, Read, ReadStart, UpstreamClient, UpstreamError,
};

/// Without a change log, the age from which a record is looked up again in the background.
const REFRESH: Duration = Duration::from_secs(45);

/// Without a change log, the age up to which a record is used without waiting for a lookup.
const FRESH: Duration = Duration::from_secs(60);

/// How long after it was last confirmed a record serves while the upstream fails.
const IF_UPSTREAM_FAILS: Duration = Duration::from_secs(15 * 60);

/// The age from which [`Records::follow_changes`] re-reads a record.
const REREAD: Duration = Duration::from_secs(10 * 60);

/// Interval between statements that re-read old records.
const REREAD_INTERVAL: Duration = Duration::from_secs(10);

/// How many old records one statement re-reads.
const MAX_REREAD: usize = 2_048;

/// Longest wait of a request for the lookup of an unconfirmed record.
const CONFIRMATION_WAIT: Duration = Duration::from_millis(100);

/// How many records of changed keys are reloaded concurrently.
const MAX_RELOADS: usize = 128;

type LookupResult = Result<Option<Arc<CachedRecord>>, NotAuthenticated>;

/// The cached records of one replica.
pub(super) struct Records {
    upstream: Arc<UpstreamClient>,
    store: RecordStore,
    flights: SingleFlight<KeyHash, LookupResult, ReadStart>,
    lookup_limiter: LookupLimiter,
    record_loader: RecordLoader,
    metrics: Arc<Metrics>,
}

impl Records {
    pub(super) fn new(upstream: Arc<UpstreamClient>, metrics: Arc<Metrics>) -> Self {
        Self {
            record_loader: RecordLoader::new(Arc::clone(&upstream)),
            store: RecordStore::new(Arc::clone(&upstream)),
            upstream,
            flights: SingleFlight::new("key_lookups"),
            lookup_limiter: LookupLimiter::new(),
            metrics,
        }
    }

    /// The numbers of cached records and of cached unknown keys.
    pub(super) fn cached_counts(&self) -> (u64, u64) {
        self.store.counts()
    }

    /// The record of the key with this hash at the moment `now`. A key without a cached record is
    /// looked up for the source that `source` returns, unless that denies it.
    pub(super) async fn get(
        &self,
        hash: &KeyHash,
        now: BootInstant,
        source: impl FnOnce() -> Result<RequestSource, AuthDenied>,
    ) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        // Boxed where they are rare, since they would enlarge the future of each request.
        let Some(known) = self.store.get(hash) else {
            let source = source()?;
            return Box::pin(self.get_uncached(hash, source)).await;
        };
        let currency = self.upstream.log.currency(DependsOn::Key(hash), &known.seen, now);
        if currency == Currency::Confirmed && self.upstream.log.exists() && !known.must_reload() {
            return Ok(Arc::clone(&known.record));
        }
        Box::pin(self.get_unconfirmed(hash, &known, currency, now.since(known.seen.began))).await
    }

    /// The record of a key whose cached record, of this age, no poll confirms.
    async fn get_unconfirmed(
        &self,
        hash: &KeyHash,
        known: &CachedRecord,
        currency: Currency,
        age: Duration,
    ) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        let is_changed = known.must_reload()
            || self.upstream.log.shows_changes(DependsOn::Key(hash), &known.seen) == Some(false);
        let serves = !is_changed && self.unconfirmed_for(age) < IF_UPSTREAM_FAILS;
        let is_in_use = self.upstream.is_in_use();
        // How long the request waits for a lookup; `None` for its end.
        let wait = match currency {
            _ if !serves => None,
            // No request waits for a database that is known to be unavailable.
            _ if !is_in_use => Some(Duration::ZERO),
            Currency::Outdated => None,
            Currency::Unconfirmed => Some(CONFIRMATION_WAIT),
            // Without a change log.
            Currency::Confirmed if age >= FRESH => None,
            Currency::Confirmed => Some(Duration::ZERO),
        };
        let Some(wait) = wait else {
            return match self.share(hash, self.look_up(*hash)).await {
                Ok(Some(found)) => Ok(Arc::clone(&found.record)),
                Ok(None) => Err(AuthDenied::Unknown.into()),
                Err(_) if serves => Ok(Arc::clone(&known.record)),
                Err(error) => Err(error),
            };
        };
        let is_due = match currency {
            Currency::Confirmed => age >= REFRESH,
            _ => known.shall_confirm(age),
        };
        if is_in_use && is_due {
            let start = self.upstream.log.read_start();
            let lookup = self.flights.spawn(hash, start, || self.look_up(*hash));
            if let Some(mut lookup) = lookup
                && let Ok(Ok(found)) = timeout(wait, lookup.wait_for(Option::is_some)).await
                && let Some(Ok(found)) = &*found
            {
                let found = found.as_ref().ok_or(AuthDenied::Unknown)?;
                return Ok(Arc::clone(&found.record));
            }
        }
        Ok(Arc::clone(&known.record))
    }

    /// Time since a record of this age was last confirmed, by a poll or by its own lookup.
    fn unconfirmed_for(&self, age: Duration) -> Duration {
        age.min(self.upstream.polls().last_success.elapsed())
    }

    async fn get_uncached(
        &self,
        hash: &KeyHash,
        source: RequestSource,
    ) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        if self.store.is_confirmed_unknown(hash) {
            return Err(AuthDenied::Unknown.into());
        }
        let found = self.share(hash, self.limited_look_up(*hash, source)).await?;
        Ok(Arc::clone(&found.ok_or(AuthDenied::Unknown)?.record))
    }

    /// Shares a lookup that is under way, or begins `look_up` if there is none that sees each change
    /// that this caller must see.
    async fn share(
        &self,
        hash: &KeyHash,
        look_up: impl Future<Output = LookupResult> + Send + 'static,
    ) -> LookupResult {
        let start = self.upstream.log.read_start();
        let may_share = |load: &ReadStart| self.upstream.log.may_share(DependsOn::Key(hash), load);
        self.flights.run_if(hash, start, may_share, || look_up).await?.value
    }

    /// A lookup with a permit, which is taken in the flight, so that callers that join it need
    /// none.
    fn limited_look_up(
        &self,
        hash: KeyHash,
        source: RequestSource,
    ) -> impl Future<Output = LookupResult> + Send + use<> {
        let (lookup_limiter, metrics) = (self.lookup_limiter.clone(), Arc::clone(&self.metrics));
        let look_up = self.look_up(hash);
        async move {
            let Some(permit) = lookup_limiter.acquire(source).await else {
                metrics.count(CacheEvent::KeyLookUpRefused);
                return Err(NotAuthenticated::TooManyUnknown);
            };
            let found = look_up.await;
            if let Ok(None) = &found {
                metrics.count(CacheEvent::KeyUnknown);
                permit.count_unknown();
            }
            found
        }
    }

    /// Marks the records of keys that polls report as changed and reloads them at once, up to
    /// [`MAX_RELOADS`] concurrently; re-reads old records. Runs forever.
    pub(super) async fn follow_changes(&self) {
        // After a panic: the keys that were taken then and are not marked or reloaded yet.
        let mut waiting = VecDeque::from(self.store.mark(ChangedKeys::All, 0));
        let mut reloads = FuturesUnordered::new();
        let mut rereads = interval(REREAD_INTERVAL);
        rereads.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let free = MAX_RELOADS - reloads.len();
            let begun = waiting.drain(..free.min(waiting.len()));
            reloads.extend(begun.map(|hash| self.reload(hash)));
            tokio::select! {
                (changed, poll) = self.upstream.changed_keys() => {
                    waiting.extend(self.store.mark(changed, poll));
                }
                Some(()) = reloads.next(), if !reloads.is_empty() => {}
                _ = rereads.tick() => self.reread().await,
            }
        }
    }

    /// Reloads a marked record.
    async fn reload(&self, hash: KeyHash) {
        if self.store.get(&hash).is_some_and(|known| known.must_reload()) {
            // A failure has been counted; the next request with this key retries.
            let _ = self.share(&hash, self.look_up(hash)).await;
        }
    }

    /// Re-reads the oldest records of more than [`REREAD`] in one statement.
    async fn reread(&self) {
        let hashes = self.store.older_than(REREAD, MAX_REREAD);
        if hashes.is_empty() || !self.upstream.is_in_use() {
            return;
        }
        match self.upstream.api_keys(&hashes).await {
            Ok(Read { value, seen }) => {
                for (hash, record) in hashes.into_iter().zip(value) {
                    drop(self.store.put(hash, record, seen.clone()));
                }
            }
            Err(error) => tracing::debug!(%error, "old key records could not be read again"),
        }
    }

    fn look_up(&self, hash: KeyHash) -> impl Future<Output = LookupResult> + Send + use<> {
        let (record_loader, metrics) = (self.record_loader.clone(), Arc::clone(&self.metrics));
        let store = self.store.clone();
        async move {
            // The first lookup may have begun before a poll that found a change, and may lack it.
            for _ in 0..2 {
                let read = record_loader.record(hash).await;
                let is_ok = read.is_ok();
                let event =
                    if is_ok { CacheEvent::KeyLookedUp } else { CacheEvent::KeyLookUpFailed };
                metrics.count(event);
                let Read { value, seen } = read.map_err(NotAuthenticated::Unavailable)?;
                match store.put(hash, value, seen) {
                    Some(found) if found.must_reload() => {}
                    found => return Ok(found),
                }
            }
            Err(NotAuthenticated::Unavailable(Arc::new(UpstreamError::Behind)))
        }
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
