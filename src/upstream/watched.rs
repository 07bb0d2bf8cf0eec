//! The upstream as caches and keys use it: it is known whether the database is there, and what
//! has changed since something was read.
//!
//! Whoever has something older to send asks [`Watched::is_in_use`] first and does not wait for a
//! database that is known to be away. Whoever has nothing tries all the same: so the very first
//! request after its return is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::change_log::{ChangeLog, Concern, Seen};
use super::{ApiKeyRecord, Changes, KeyHash, Read, Upstream, UpstreamError};
use crate::breaker::{Breaker, Outcome};
use crate::ops::PoolState;
use crate::registry::{
    ArenaInsights, DomainName, GeneId, GenePage, GenePhenotype, GeneSearch, GeneSummary, Timestamp,
};

/// Between two looks into the change log.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the module.
pub struct Watched {
    upstream: Arc<dyn Upstream>,
    breaker: Breaker,
    log: ChangeLog,
    clock: Clock,
    being_asked: AtomicBool,
    unreadable: AtomicBool,
    looks: LookCounts,
}

/// The looks into the change log up to now.
#[derive(Debug, Clone, Copy)]
pub struct Looks {
    /// Time since the last good one; at first, since the beginning.
    pub age: Duration,
    /// Those that were good.
    pub good: u64,
    /// Those that failed.
    pub failed: u64,
    /// Changes that they found, without the first one's.
    pub changes: u64,
}

#[derive(Debug)]
struct LookCounts {
    begun: Instant,
    last_good_ms: AtomicU64,
    good: AtomicU64,
    failed: AtomicU64,
    changes: AtomicU64,
}

impl LookCounts {
    fn begin() -> Self {
        let (last_good_ms, good) = (AtomicU64::new(0), AtomicU64::new(0));
        let (failed, changes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { begun: Instant::now(), last_good_ms, good, failed, changes }
    }

    fn good(&self, found: &Changes) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_good_ms.store(now, Ordering::Relaxed);
        let is_first = self.good.fetch_add(1, Ordering::Relaxed) == 0;
        if let Changes::These(changes) = found
            && !is_first
        {
            self.changes.fetch_add(changes.len() as u64, Ordering::Relaxed);
        }
    }

    fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// The upstream's clock, as far as it is known: replicas whose clocks differ agree on ages.
#[derive(Debug, Default)]
struct Clock {
    ahead_by_us: AtomicI64,
}

impl Clock {
    fn now(&self) -> Timestamp {
        let ahead = jiff::SignedDuration::from_micros(self.ahead_by_us.load(Ordering::Relaxed));
        let now = Timestamp::now();
        now.saturating_add(ahead).unwrap_or(now)
    }

    /// The upstream's clock showed `upstream` between `asked` and now.
    fn set(&self, upstream: Timestamp, asked: Timestamp) {
        let middle = asked.as_microsecond().midpoint(Timestamp::now().as_microsecond());
        let ahead = upstream.as_microsecond().saturating_sub(middle);
        self.ahead_by_us.store(ahead, Ordering::Relaxed);
    }
}

impl Watched {
    /// An upstream of which nothing is known yet; [`Self::watch`] must run.
    pub fn new(upstream: Arc<dyn Upstream>) -> Arc<Self> {
        Arc::new(Self {
            upstream,
            breaker: Breaker::new("the registry's database"),
            log: ChangeLog::default(),
            clock: Clock::default(),
            being_asked: AtomicBool::new(false),
            unreadable: AtomicBool::new(false),
            looks: LookCounts::begin(),
        })
    }

    /// Looks into the change log, once a second, for ever. This also notices when the database
    /// goes away and when it is back.
    pub async fn watch(self: Arc<Self>) {
        loop {
            let begun = Instant::now();
            self.look().await;
            tokio::time::sleep(LOOK_EVERY.saturating_sub(begun.elapsed())).await;
        }
    }

    async fn ping(&self) {
        let (begun, asked) = (Instant::now(), Timestamp::now());
        let answer = self.upstream.ping().await;
        self.judge(answer.as_ref().err(), begun);
        if let Ok(now) = answer {
            self.clock.set(now, asked);
        }
    }

    async fn look(&self) {
        let (begun, asked) = (Instant::now(), Timestamp::now());
        let found = self.upstream.changes(self.log.present().as_ref()).await;
        self.judge(found.as_ref().err(), begun);
        match found {
            Ok(found) => {
                self.looks.good(&found.value);
                self.clock.set(found.seen.read_at, asked);
                if self.unreadable.swap(false, Ordering::AcqRel) {
                    tracing::info!("the registry's change log is read again");
                }
                if self.log.looked(found) == Some(false) {
                    tracing::info!("the registry has no change log: ages alone count");
                }
            }
            Err(error) => {
                self.looks.failed();
                if !self.unreadable.swap(true, Ordering::AcqRel) {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(
                        %error,
                        cause,
                        "the registry's change log (registry_read.change) cannot be read: only \
                         what was read after the last look counts as current"
                    );
                }
                self.log.look_failed();
                if matches!(error, UpstreamError::Failed(_)) {
                    // The log alone: the rest is read, and has ages.
                    self.ping().await;
                }
            }
        }
    }

    /// Whether it is known what is current, so that shared answers can be judged.
    pub fn is_settled(&self) -> bool {
        self.log.is_settled()
    }

    /// Whether the database is in use: not known to be away.
    pub fn is_in_use(&self) -> bool {
        !self.breaker.is_open()
    }

    /// How often the database was found to be away.
    pub fn openings(&self) -> u64 {
        self.breaker.openings()
    }

    /// Its pools of connections by name, where it has any.
    pub fn pools(&self) -> Vec<(&'static str, PoolState)> {
        self.upstream.pools()
    }

    /// The looks into the change log up to now.
    pub fn looks(&self) -> Looks {
        let LookCounts { begun, last_good_ms, good, failed, changes } = &self.looks;
        let last_good = Duration::from_millis(last_good_ms.load(Ordering::Relaxed));
        Looks {
            age: begun.elapsed().saturating_sub(last_good),
            good: good.load(Ordering::Relaxed),
            failed: failed.load(Ordering::Relaxed),
            changes: changes.load(Ordering::Relaxed),
        }
    }

    /// Rows that the latest unfiltered search left out because they break the contract.
    pub fn broken_rows(&self) -> i64 {
        self.upstream.broken_rows()
    }

    /// Whether every known change that concerns what was `seen` is visible in it.
    pub fn is_current(&self, concern: Concern<'_>, seen: &Seen) -> bool {
        self.log.is_current(concern, seen)
    }

    /// The time by the upstream's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// See [`Upstream::search`].
    pub async fn search(
        self: &Arc<Self>,
        search: &GeneSearch,
    ) -> Result<Read<GenePage>, UpstreamError> {
        self.guarded(self.upstream.search(search)).await
    }

    /// See [`Upstream::page`].
    pub async fn page(
        self: &Arc<Self>,
        search: &GeneSearch,
    ) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        self.guarded(self.upstream.page(search)).await
    }

    /// See [`Upstream::phenotype`].
    pub async fn phenotype(
        self: &Arc<Self>,
        id: GeneId,
    ) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        self.guarded(self.upstream.phenotype(id)).await
    }

    /// See [`Upstream::insights`].
    pub async fn insights(
        self: &Arc<Self>,
        domain: &DomainName,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        self.guarded(self.upstream.insights(domain, self.now())).await
    }

    /// See [`Upstream::api_keys`].
    pub async fn api_keys(
        self: &Arc<Self>,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        self.guarded(self.upstream.api_keys(hashes)).await
    }

    async fn guarded<T>(
        self: &Arc<Self>,
        read: impl Future<Output = Result<T, UpstreamError>>,
    ) -> Result<T, UpstreamError> {
        let begun = Instant::now();
        let result = read.await;
        match &result {
            // One slow statement does not say that the database is away; ask it.
            Err(UpstreamError::Timeout) => self.ask_whether_it_is_there(),
            other => self.judge(other.as_ref().err(), begun),
        }
        result
    }

    /// One question at a time, behind everybody's back.
    fn ask_whether_it_is_there(self: &Arc<Self>) {
        if self.being_asked.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let begun = Instant::now();
            let answer = this.upstream.ping().await;
            this.judge(answer.as_ref().err(), begun);
            this.being_asked.store(false, Ordering::Release);
        });
    }

    fn judge(&self, error: Option<&UpstreamError>, begun: Instant) {
        let outcome = match error {
            Some(UpstreamError::Unreachable(_)) => Outcome::Refused,
            Some(UpstreamError::Timeout) => Outcome::Lost,
            _ => Outcome::Answered,
        };
        self.breaker.record(outcome, begun, Instant::now());
    }
}

#[cfg(test)]
#[path = "watched_tests.rs"]
mod tests;
