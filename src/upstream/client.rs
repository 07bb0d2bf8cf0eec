//! The client of the upstream: chooses the server of each read, and knows whether the database is
//! available and which reads are current.
//!
//! Genes are read at the standbys in turn, or at the primary if the standby lacks a known change or
//! does not show a later state than the caller already has. API keys are read at the primary, because
//! a new key is used at once, or at a standby while that is unavailable.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::change::DependsOn;
use super::change_log::{ChangeLog, Currency};
use super::clock::{BootInstant, DatabaseClock};
use super::error::UpstreamError;
use super::history::History;
use super::key_changes::{ChangedKeys, KeyChanges};
use super::poll_stats::{PollCounts, PollStats};
use super::read::{Read, ReadOrder, ReadStamp};
use super::replication::ReplicationTracker;
use super::source::Upstream;
use super::standbys::{StandbyState, Standbys};
use crate::ops::{PoolState, error_chain};
use crate::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneId, GenePage, GenePhenotype, GeneSearch,
    GeneSummary, KeyHash, Timestamp,
};
use crate::sync::{Breaker, CallOutcome, SingleFlight, lock};

/// A client of one upstream and its standbys.
pub struct UpstreamClient {
    /// The configured primary.
    pub(super) primary: Arc<dyn Upstream>,
    pub(super) standbys: Standbys,
    pub(super) breaker: Breaker,
    /// What the polls have found.
    pub log: ChangeLog,
    pub(super) clock: DatabaseClock,
    pub(super) replication: Mutex<ReplicationTracker>,
    /// Pings of the primary after reads that timed out.
    pings: SingleFlight<(), ()>,
    pub(super) stats: PollStats,
    pub(super) key_changes: KeyChanges,
}

impl UpstreamClient {
    /// A client that knows nothing yet; [`ChangePoller`](super::ChangePoller) must run.
    pub fn new(primary: Arc<dyn Upstream>) -> Arc<Self> {
        Arc::new(Self {
            standbys: Standbys::new(primary.standbys()),
            primary,
            breaker: Breaker::new("the registry's database"),
            log: ChangeLog::default(),
            clock: DatabaseClock::default(),
            replication: Mutex::default(),
            pings: SingleFlight::new("database_pings"),
            stats: PollStats::default(),
            key_changes: KeyChanges::default(),
        })
    }

    /// Reads one page of a search, with the number of all genes that match. The read shows a later
    /// state than `since`, which the caller already has.
    pub async fn search(
        self: &Arc<Self>,
        search: &GeneSearch,
        since: Option<ReadOrder>,
    ) -> Result<Read<GenePage>, UpstreamError> {
        let depends_on = DependsOn::of_filter(&search.filter);
        self.read_genes(depends_on, since, |from| async move { from.search(search).await }).await
    }

    /// Reads the genes of one page, without that number. See [`Self::search`] for `since`.
    pub async fn page(
        self: &Arc<Self>,
        search: &GeneSearch,
        since: Option<ReadOrder>,
    ) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        let depends_on = DependsOn::of_filter(&search.filter);
        self.read_genes(depends_on, since, |from| async move { from.page(search).await }).await
    }

    /// Reads a published gene's phenotype; `None` if there is no such gene. See [`Self::search`] for
    /// `since`.
    pub async fn phenotype(
        self: &Arc<Self>,
        id: GeneId,
        since: Option<ReadOrder>,
    ) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        let depends_on = DependsOn::Gene(id);
        self.read_genes(depends_on, since, |from| async move { from.phenotype(id).await }).await
    }

    /// Computes a domain's arena; `None` if the domain has no published gene. See [`Self::search`]
    /// for `since`.
    pub async fn insights(
        self: &Arc<Self>,
        domain: &DomainName,
        since: Option<ReadOrder>,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        let (depends_on, now) = (DependsOn::Domain(domain), self.now());
        self.read_genes(depends_on, since, |from| async move { from.insights(domain, now).await })
            .await
    }

    /// Reads the records of the API keys with these hashes, in their order; `None` for unknown keys.
    pub async fn api_keys(
        self: &Arc<Self>,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        let read = |from: Arc<dyn Upstream>| async move { from.api_keys(hashes).await };
        if self.standbys.is_empty() {
            return self.read_at_primary(read).await;
        }
        let shows_changes =
            |seen: &ReadStamp| hashes.iter().all(|hash| self.shows(DependsOn::Key(hash), seen));
        let at_standby = || self.standbys.read(None, shows_changes, read);
        let both = async {
            if !self.is_primary_in_use()
                && let Some(found) = at_standby().await
            {
                return Ok(found);
            }
            let at_primary = |from| with_timeout(self.standbys.deadline() / 2, read(from));
            match self.read_at_primary(at_primary).await {
                Ok(found) => Ok(found),
                Err(error) => at_standby().await.ok_or(error),
            }
        };
        timeout(self.standbys.deadline(), both).await.unwrap_or(Err(UpstreamError::Timeout))
    }

    async fn read_genes<T, R>(
        self: &Arc<Self>,
        depends_on: DependsOn<'_>,
        since: Option<ReadOrder>,
        read: impl Fn(Arc<dyn Upstream>) -> R,
    ) -> Result<Read<T>, UpstreamError>
    where
        R: Future<Output = Result<Read<T>, UpstreamError>>,
    {
        if self.standbys.is_empty() {
            return self.read_at_primary(read).await;
        }
        let end = Instant::now() + self.standbys.deadline();
        let shows_changes = |seen: &ReadStamp| self.shows(depends_on, seen);
        if let Some(found) = self.standbys.read(since, shows_changes, &read).await {
            return Ok(found);
        }
        let found = timeout_at(end, self.read_at_primary(read)).await;
        found.unwrap_or(Err(UpstreamError::Timeout))
    }

    /// Reads at the primary, and tells the circuit breaker the outcome.
    async fn read_at_primary<T, R>(
        self: &Arc<Self>,
        read: impl Fn(Arc<dyn Upstream>) -> R,
    ) -> Result<Read<T>, UpstreamError>
    where
        R: Future<Output = Result<Read<T>, UpstreamError>>,
    {
        let (begun, start) = (std::time::Instant::now(), self.log.read_start());
        match read(Arc::clone(&self.primary)).await {
            Ok(Read { value, seen }) => {
                record(&self.breaker, None, begun);
                Ok(Read { value, seen: start.stamp(seen) })
            }
            Err(error) => {
                // One slow statement does not show that the database is unavailable: a ping decides.
                if matches!(error, UpstreamError::Timeout) {
                    drop(self.pings.spawn(&(), (), || Arc::clone(self).ping()));
                } else {
                    record(&self.breaker, Some(&error), begun);
                }
                Err(error)
            }
        }
    }

    /// Pings the primary after a read that timed out.
    async fn ping(self: Arc<Self>) {
        let begun = std::time::Instant::now();
        let pong = self.primary.position().await;
        record(&self.breaker, pong.as_ref().err(), begun);
        if pong.is_err() {
            // The read was the first timeout in a row.
            record(&self.breaker, pong.as_ref().err(), begun);
        }
    }

    /// Whether the database answers, after a read of it that failed.
    pub async fn answers(self: &Arc<Self>, error: &UpstreamError) -> bool {
        if matches!(error, UpstreamError::Timeout) {
            // A panic of the ping says nothing.
            let _ = self.pings.run(&(), || Arc::clone(self).ping()).await;
        }
        !self.breaker.is_open()
    }

    fn shows(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
        self.currency(depends_on, seen, BootInstant::now()) != Currency::Outdated
    }

    /// How current a read is at the moment `now`.
    pub fn currency(
        &self,
        depends_on: DependsOn<'_>,
        seen: &ReadStamp,
        now: BootInstant,
    ) -> Currency {
        self.log.currency(depends_on, seen, now)
    }

    /// The stamp of a read that another replica made in the present history; `None` if it is from
    /// the future, because the database's clock has stepped back.
    pub fn stamp_of_shared(&self, seen: &ReadStamp) -> Option<ReadStamp> {
        let began = self.clock.moment_of(seen.read_at)?;
        let is_ambiguous = self.clock.is_ambiguous(seen.read_at);
        let confirmed_at = if is_ambiguous { BootInstant::MIN } else { began };
        Some(ReadStamp { began, confirmed_at, history: self.log.history(), ..seen.clone() })
    }

    /// Whether entries of other replicas can be checked, or the database cannot be asked instead.
    pub fn may_use_shared(&self) -> bool {
        self.log.is_settled() || !self.is_in_use()
    }

    /// Whether the database has been reached, and a server is in use.
    pub fn is_reached(&self) -> bool {
        self.log.history() > 0 && self.is_in_use()
    }

    /// Whether the primary is not known to be unavailable, or a standby is read.
    pub fn is_in_use(&self) -> bool {
        self.is_primary_in_use() || self.standbys.is_any_in_use()
    }

    /// Whether the primary is not known to be unavailable.
    pub fn is_primary_in_use(&self) -> bool {
        !self.breaker.is_open()
    }

    /// The present history of the database, with the bytes of the write-ahead log at the last poll.
    pub fn history(&self) -> Option<(History, Option<u64>)> {
        let tracker = lock(&self.replication);
        tracker.history.map(|history| (history, tracker.wal()))
    }

    /// Begins the history that other replicas have found, unless this one has found one. `wal`: what
    /// a standby must have replayed to be read.
    pub fn adopt_history(&self, history: History, wal: Option<u64>) {
        let mut tracker = lock(&self.replication);
        if tracker.history.is_some() {
            return;
        }
        self.log.begin_history();
        tracker.begin_history(history);
        if let Some(wal) = wal {
            let stamp = ReadStamp::new(self.now(), None);
            tracker.add(wal, self.log.read_start().stamp_of_poll(stamp, BootInstant::now(), wal));
        }
    }

    /// How often the database has begun another history.
    pub fn history_switches(&self) -> u64 {
        self.log.history().saturating_sub(1)
    }

    /// The state of each standby, in the order of the configuration.
    pub fn standby_states(&self) -> Vec<StandbyState> {
        self.standbys.states()
    }

    /// How often the circuit breaker of the primary has opened.
    pub fn open_count(&self) -> u64 {
        self.breaker.open_count()
    }

    /// The connection pools by name, if there are any.
    pub fn pools(&self) -> Vec<(&'static str, PoolState)> {
        self.primary.pools()
    }

    /// Number of genes that the latest unfiltered search left out because they violate the
    /// contract of the views.
    pub fn broken_rows(&self) -> i64 {
        self.primary.broken_rows()
    }

    /// The polls of the change log so far.
    pub fn polls(&self) -> PollCounts {
        self.stats.counts()
    }

    /// Waits until polls find changed API keys, and takes those keys. Each is taken once, so only one
    /// task may call this.
    pub async fn changed_keys(&self) -> (ChangedKeys, u64) {
        self.key_changes.take().await
    }

    /// The current time by the database's clock.
    pub fn now(&self) -> Timestamp {
        self.time_at(BootInstant::now())
    }

    /// The time by the database's clock at the moment `at`.
    pub fn time_at(&self, at: BootInstant) -> Timestamp {
        self.clock.at(at)
    }
}

/// Tells a circuit breaker the outcome of a call of its server.
pub(super) fn record(breaker: &Breaker, error: Option<&UpstreamError>, begun: std::time::Instant) {
    let outcome = match error {
        Some(UpstreamError::Unreachable(_)) => CallOutcome::Refused,
        Some(UpstreamError::Timeout) => CallOutcome::Lost,
        _ => CallOutcome::Answered,
    };
    breaker.record(outcome, begun, std::time::Instant::now(), || error.map(|it| error_chain(it)));
}

async fn with_timeout<T>(
    limit: Duration,
    read: impl Future<Output = Result<T, UpstreamError>>,
) -> Result<T, UpstreamError> {
    timeout(limit, read).await.unwrap_or(Err(UpstreamError::Timeout))
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
