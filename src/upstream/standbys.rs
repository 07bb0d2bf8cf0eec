//! Reads from standbys, in turn. A standby that lags too far, fails, or is not known to belong to
//! the present history is not read until a poll finds that this is over.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::change_log::ChangeLog;
use super::clock::BootInstant;
use super::error::{UpstreamError, record};
use super::history::{History, Position, ServerRun};
use super::read::{Read, ReadOrder, ReadStamp};
use super::replication::ReplicationTracker;
use super::source::{StandbySet, Upstream};
use crate::ops::error_chain;
use crate::sync::supervised::{contain, register};
use crate::sync::{Breaker, TaskPanicked, lock};

/// The name of the task that polls a standby.
const POLLS: &str = "standby_polls";

/// The state of a standby, for health and metrics.
#[derive(Debug, Clone, Copy)]
pub struct StandbyState {
    /// Whether it is read.
    pub in_use: bool,
    /// Upper bound of its lag; `None` if it is unknown.
    pub lag: Option<Duration>,
    /// Successful reads.
    pub answered: u64,
    /// Reads that were repeated at the primary, because it had not replayed a known change.
    pub behind: u64,
    /// Failed reads.
    pub failed: u64,
}

/// The standbys of one replica.
pub(super) struct Standbys {
    pub(super) each: Vec<Standby>,
    max_lag: Duration,
    /// Timeout of one read, over all servers that are tried.
    pub(super) deadline: Duration,
    /// Number of reads so far, which decides the standby of the next one.
    turn: AtomicUsize,
}

/// A standby, with its statistics.
pub(super) struct Standby {
    pub(super) upstream: Arc<dyn Upstream>,
    number: usize,
    breaker: Breaker,
    polls: Mutex<StandbyPolls>,
    answered: AtomicU64,
    behind: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug, Default)]
struct StandbyPolls {
    /// The last position.
    position: Option<Position>,
    /// The history that it belongs to, and the run of the server that has proved it.
    proven: Option<(History, Option<ServerRun>)>,
    /// The stamp of reads from now on; `None` if it must not be read.
    stamp: Option<ReadStamp>,
    /// The state that was last logged.
    logged: Option<bool>,
}

impl Standbys {
    pub(super) fn new(set: StandbySet) -> Self {
        register(POLLS);
        let each = set.each.into_iter().enumerate();
        Self {
            each: each.map(|(index, upstream)| Standby::new(index + 1, upstream)).collect(),
            max_lag: set.max_lag,
            deadline: set.deadline,
            turn: AtomicUsize::new(0),
        }
    }

    pub(super) fn is_any_in_use(&self) -> bool {
        self.each.iter().any(|standby| self.stamp_of(standby).is_some())
    }

    /// The state of each.
    pub(super) fn states(&self) -> Vec<StandbyState> {
        let state = |standby: &Standby| StandbyState {
            in_use: self.stamp_of(standby).is_some(),
            lag: lock(&standby.polls).stamp.as_ref().map(|stamp| stamp.began.elapsed()),
            answered: standby.answered.load(Ordering::Relaxed),
            behind: standby.behind.load(Ordering::Relaxed),
            failed: standby.failed.load(Ordering::Relaxed),
        };
        self.each.iter().map(state).collect()
    }

    /// Reads from the next standby that may be read and shows a later state than `since`, with half
    /// of the deadline as timeout. `accept` decides whether its stamp is current enough.
    pub(super) async fn read<T, R>(
        &self,
        since: Option<ReadOrder>,
        accept: impl Fn(&ReadStamp) -> bool,
        read: impl FnOnce(Arc<dyn Upstream>) -> R,
    ) -> Option<Read<T>>
    where
        R: Future<Output = Result<Read<T>, UpstreamError>>,
    {
        let (standby, stamp) = self.next(since)?;
        let begun = Instant::now();
        let found = timeout(self.deadline / 2, read(Arc::clone(&standby.upstream))).await;
        let found = found.unwrap_or(Err(UpstreamError::Timeout));
        record(&standby.breaker, found.as_ref().err(), begun);
        let Some(found) = found.ok().filter(|found| found.seen.server == stamp.server) else {
            standby.failed.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // A change may have become known before the read or during it.
        if !accept(&stamp) {
            standby.behind.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        standby.answered.fetch_add(1, Ordering::Relaxed);
        let shown_transactions = stamp.shown_transactions.max(found.seen.shown_transactions);
        let seen = ReadStamp { shown_at: BootInstant::now(), shown_transactions, ..stamp };
        Some(Read { value: found.value, seen })
    }

    /// Reads none of them until their next polls.
    pub(super) fn distrust(&self) {
        self.each.iter().for_each(|standby| lock(&standby.polls).stamp = None);
    }

    fn next(&self, since: Option<ReadOrder>) -> Option<(&Standby, ReadStamp)> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..self.each.len()).find_map(|step| {
            let standby = &self.each[(first.wrapping_add(step)) % self.each.len()];
            let stamp = ReadStamp { sent_at: BootInstant::now(), ..self.stamp_of(standby)? };
            let is_later = |since: ReadOrder| {
                let order = stamp.order();
                order > since && order.supersedes(&since)
            };
            since.is_none_or(is_later).then_some((standby, stamp))
        })
    }

    fn stamp_of(&self, standby: &Standby) -> Option<ReadStamp> {
        if standby.breaker.is_open() {
            return None;
        }
        let polls = lock(&standby.polls);
        let stamp = polls.stamp.as_ref()?;
        (stamp.began.elapsed() <= self.max_lag).then(|| stamp.clone())
    }

    /// Logs when a standby begins or ceases to be read.
    fn log_state(&self, standby: &Standby, why: Option<String>) {
        let in_use = self.stamp_of(standby).is_some();
        let mut polls = lock(&standby.polls);
        if polls.logged.replace(in_use) == Some(in_use) {
            return;
        }
        let number = standby.number;
        if in_use {
            tracing::info!(standby = number, "the standby is read");
            return;
        }
        let why = why.unwrap_or_else(|| match &polls.stamp {
            Some(stamp) => format!("it lags by {} s", stamp.began.elapsed().as_secs()),
            None => "it is not known to follow the primary".to_owned(),
        });
        tracing::warn!(standby = number, why, "the standby is not read");
    }

    /// The standbys of the present history, the most advanced first.
    pub(super) fn most_advanced_first(&self) -> Vec<&Standby> {
        let is_proven = |standby: &&Standby| lock(&standby.polls).stamp.is_some();
        let wal = |standby: &&Standby| lock(&standby.polls).position.as_ref().map(|at| at.wal);
        let mut each: Vec<_> = self.each.iter().filter(is_proven).collect();
        each.sort_by_key(|standby| std::cmp::Reverse(wal(standby)));
        each
    }

    /// The history of the newest timeline, while the primary has never been reached.
    pub(super) fn newest_history(&self) -> Option<History> {
        let at = |standby: &Standby| lock(&standby.polls).position.as_ref().map(|at| at.history);
        self.each.iter().filter_map(at).max_by_key(|history| history.timeline)
    }

    /// Polls a standby after the latest checkpoint of `tracker`. A panic counts as a failure.
    pub(super) async fn poll(
        &self,
        standby: &Standby,
        primary: &dyn Upstream,
        log: &ChangeLog,
        tracker: &Mutex<ReplicationTracker>,
    ) {
        let begun = Instant::now();
        let found = contain(POLLS, standby.upstream.position()).await;
        let found = found.unwrap_or_else(|| Err(UpstreamError::Failed(TaskPanicked.into())));
        record(&standby.breaker, found.as_ref().err(), begun);
        let (position, why) = match found {
            Ok(position) => (Some(position), None),
            Err(error) => (None, Some(error_chain(&error))),
        };
        let history = lock(tracker).history;
        let is_proven = match (&position, history) {
            (Some(position), Some(history)) => {
                let proven = Some((history, position.server));
                let is_known = lock(&standby.polls).proven == proven
                    || history.is_proven_by(&position.history)
                    || standby.shows_witness(primary, log).await;
                lock(&standby.polls).proven = proven.filter(|_| is_known);
                is_known
            }
            _ => false,
        };
        {
            let tracker = lock(tracker);
            let is_of_history = is_proven && tracker.history == history;
            let mut polls = lock(&standby.polls);
            polls.stamp = position.as_ref().filter(|_| is_of_history).and_then(|position| {
                let reached = tracker.newest_reached(position)?.clone();
                let wal = reached.wal.max(position.wal.unwrap_or(0));
                Some(ReadStamp { wal, server: position.server, ..reached })
            });
            polls.position = position;
        }
        self.log_state(standby, why);
    }
}

impl Standby {
    fn new(number: usize, upstream: Arc<dyn Upstream>) -> Self {
        Self {
            upstream,
            number,
            breaker: Breaker::new(format!("standby {number} of the registry's database")),
            polls: Mutex::default(),
            answered: AtomicU64::new(0),
            behind: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Whether it shows a change that the primary has logged since the present history began.
    async fn shows_witness(&self, primary: &dyn Upstream, log: &ChangeLog) -> bool {
        let Some(xid) = log.witness() else { return false };
        let (ours, theirs) = tokio::join!(self.upstream.changed_at(xid), primary.changed_at(xid));
        matches!((ours, theirs), (Ok(Some(ours)), Ok(Some(theirs))) if ours == theirs)
    }
}
