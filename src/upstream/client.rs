//! The client of the upstream: knows whether the database is available, which history it continues,
//! and which reads are current.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use super::change_log::ChangeLog;
use super::clock::{BootInstant, DatabaseClock};
use super::error::{UpstreamError, record};
use super::history::History;
use super::key_changes::{ChangedKeys, KeyChanges};
use super::poll_stats::PollStats;
use super::read::ReadStamp;
use super::replication::ReplicationTracker;
use super::source::Upstream;
use super::standbys::{StandbyState, Standbys};
use crate::registry::Timestamp;
use crate::sync::{Breaker, SingleFlight, lock};

/// A client of one upstream and its standbys.
pub struct UpstreamClient {
    /// The configured primary.
    pub primary: Arc<dyn Upstream>,
    pub(super) standbys: Standbys,
    /// The circuit breaker of the primary.
    pub breaker: Breaker,
    /// What the polls have found.
    pub log: ChangeLog,
    pub(super) clock: DatabaseClock,
    pub(super) replication: Mutex<ReplicationTracker>,
    /// Pings of the primary after reads that timed out.
    pub(super) pings: SingleFlight<(), ()>,
    pub(super) polls: Mutex<PollStats>,
    pub(super) key_changes: KeyChanges,
    /// Whether the primary has refused the login, and has not answered since.
    pub is_login_refused: AtomicBool,
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
            polls: Mutex::default(),
            key_changes: KeyChanges::default(),
            is_login_refused: AtomicBool::default(),
        })
    }

    /// Pings the primary after a read that timed out.
    pub(super) async fn ping(self: Arc<Self>) {
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
        if matches!(error, UpstreamError::Timeout) && self.is_primary_in_use() {
            // A panic of the ping says nothing.
            let _ = self.pings.run(&(), || Arc::clone(self).ping()).await;
        }
        !self.breaker.is_open()
    }

    /// The stamp of a read that another replica made in the history with this number; `None` if it is
    /// from the future, because the database's clock has stepped back.
    pub fn stamp_of_shared(&self, seen: &ReadStamp, history: u64) -> Option<ReadStamp> {
        let began = self.clock.moment_of(seen.read_at)?;
        let is_ambiguous = self.clock.is_ambiguous(seen.read_at);
        let confirmed_at = if is_ambiguous { BootInstant::MIN } else { began };
        let ([sent_at, not_before], shown_at) = ([BootInstant::MIN; 2], BootInstant::now());
        let seen = ReadStamp { began, sent_at, not_before, shown_at, ..seen.clone() };
        Some(ReadStamp { confirmed_at, history, ..seen })
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

    /// The present history of the database, with its number among those of this replica.
    pub fn history(&self) -> Option<(History, u64)> {
        let tracker = lock(&self.replication);
        tracker.history.map(|history| (history, tracker.number))
    }

    /// Bytes of the write-ahead log at the last poll.
    pub fn wal(&self) -> Option<u64> {
        lock(&self.replication).wal()
    }

    /// Begins the history that other replicas have found, unless this one has found one. `wal`: what
    /// a standby must have replayed to be read.
    pub fn adopt_history(&self, history: History, wal: Option<u64>) {
        let mut tracker = lock(&self.replication);
        if tracker.history.is_some() {
            return;
        }
        self.log.begin_history(tracker.begin_history(history), None);
        if let Some(wal) = wal {
            let stamp = ReadStamp::new(self.now(), None);
            tracker.add(wal, self.log.read_start().stamp_of_poll(stamp, BootInstant::now(), wal));
        }
    }

    /// The polls of the change log so far.
    pub fn polls(&self) -> PollStats {
        *lock(&self.polls)
    }

    /// The state of each standby, in the order of the configuration.
    pub fn standby_states(&self) -> Vec<StandbyState> {
        self.standbys.states()
    }

    /// Waits until a poll finds changed API keys, and takes these with the number of the poll. Each is
    /// taken once, so only one task may call this.
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

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
