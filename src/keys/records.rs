//! Key records, which are kept in this process alone.
//!
//! A record is used for [`FRESH`], and looked up again behind from [`REFRESH`] on; after that a
//! request waits for the look-up, and only if it fails, or the database is known to be away, does
//! the old record serve, for [`IF_UPSTREAM_FAILS`] at most. The same holds for a record that a
//! known change concerns, whatever its age.

use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::sync::Cache;

use super::authenticator::{Denial, NotAuthenticated};
use super::first_looks::FirstLooks;
use super::look_ups::LookUps;
use crate::flight::Flights;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::Timestamp;
use crate::upstream::{ApiKeyRecord, Concern, KeyHash, Seen, Watched};

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

type LookUp = Result<Option<Arc<Known>>, NotAuthenticated>;

#[derive(Debug)]
struct Known {
    record: Arc<ApiKeyRecord>,
    seen: Seen,
    looked_up: Instant,
}

/// The records of one replica.
pub(super) struct Records {
    upstream: Arc<Watched>,
    known: Cache<KeyHash, Arc<Known>>,
    unknown: Cache<KeyHash, Arc<Seen>>,
    flights: Flights<KeyHash, LookUp>,
    first_looks: FirstLooks,
    look_ups: LookUps,
    metrics: Arc<Metrics>,
}

impl Records {
    pub(super) fn new(upstream: Arc<Watched>, metrics: Arc<Metrics>) -> Self {
        Self {
            look_ups: LookUps::new(Arc::clone(&upstream)),
            upstream,
            known: Cache::builder().max_capacity(RECORDS).time_to_live(IF_UPSTREAM_FAILS).build(),
            unknown: Cache::builder().max_capacity(UNKNOWN_KEYS).time_to_live(UNKNOWN).build(),
            flights: Flights::default(),
            first_looks: FirstLooks::new(),
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
                return Err(Denial::Malformed.into());
            }
            // Boxed like the look-up below: rare, and every request would carry the room for it.
            return Box::pin(self.never_seen(hash)).await;
        };
        let age = known.looked_up.elapsed();
        if age < FRESH && self.is_current(hash, &known.seen) {
            if age >= REFRESH && self.upstream.is_in_use() {
                self.flights.begin(hash, || self.look_up(*hash));
            }
            return Ok(Arc::clone(&known.record));
        }
        // Nobody waits for a database known to be away.
        if !self.upstream.is_in_use() && age < IF_UPSTREAM_FAILS {
            return Ok(Arc::clone(&known.record));
        }
        match Box::pin(self.flights.join(hash, || self.look_up(*hash))).await?.value {
            Ok(Some(found)) => Ok(Arc::clone(&found.record)),
            Ok(None) => Err(Denial::Unknown.into()),
            Err(_) if age < IF_UPSTREAM_FAILS => Ok(Arc::clone(&known.record)),
            Err(error) => Err(error),
        }
    }

    async fn never_seen(&self, hash: &KeyHash) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        if self.unknown.get(hash).is_some_and(|seen| self.is_current(hash, &seen)) {
            return Err(Denial::Unknown.into());
        }
        let found = self.flights.join(hash, || self.first_look(*hash)).await?.value?;
        Ok(Arc::clone(&found.ok_or(Denial::Unknown)?.record))
    }

    /// Leave is taken in the flight, so that those who join a look-up need none.
    fn first_look(&self, hash: KeyHash) -> impl Future<Output = LookUp> + Send + use<> {
        let (first_looks, metrics) = (self.first_looks.clone(), Arc::clone(&self.metrics));
        let look_up = self.look_up(hash);
        async move {
            let Some(first_look) = first_looks.begin().await else {
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

    fn is_current(&self, hash: &KeyHash, seen: &Seen) -> bool {
        self.upstream.is_current(Concern::Key(hash), seen)
    }

    fn look_up(&self, hash: KeyHash) -> impl Future<Output = LookUp> + Send + use<> {
        let (look_ups, metrics) = (self.look_ups.clone(), Arc::clone(&self.metrics));
        let (known, unknown) = (self.known.clone(), self.unknown.clone());
        async move {
            let looked_up = Instant::now();
            let read = look_ups.record(hash).await;
            metrics.count(CacheEvent::KeyLookUp { failed: read.is_err() });
            let read = read.map_err(NotAuthenticated::Unavailable)?;
            let Some(record) = read.value else {
                known.invalidate(&hash);
                unknown.insert(hash, Arc::new(read.seen));
                return Ok(None);
            };
            let found = Known { record: Arc::new(record), seen: read.seen, looked_up };
            let found = Arc::new(found);
            known.insert(hash, Arc::clone(&found));
            unknown.invalidate(&hash);
            Ok(Some(found))
        }
    }
}
