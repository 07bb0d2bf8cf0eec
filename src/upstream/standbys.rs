//! Reads from standbys, in turn. A standby that lags too far, fails or follows another timeline than
//! the primary is not read until a poll finds that this is over.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::error::UpstreamError;
use super::read::{Read, ReadStamp};
use super::replication::{Position, ReplicationTracker, StandbyTracker};
use super::source::{StandbySet, Upstream};
use crate::ops::error_chain;
use crate::registry::Timestamp;
use crate::sync::supervised::{contain, register};
use crate::sync::{Breaker, CallOutcome, TaskPanicked};

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
    each: Vec<Standby>,
    max_lag: Duration,
    /// Timeout of one read, over all servers that are tried.
    deadline: Duration,
    /// Number of reads so far, which decides the standby of the next one.
    turn: AtomicUsize,
}

/// A standby, with its statistics.
pub(super) struct Standby {
    upstream: Arc<dyn Upstream>,
    number: usize,
    breaker: Breaker,
    polls: Mutex<StandbyPolls>,
    answered: AtomicU64,
    behind: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug, Default)]
struct StandbyPolls {
    follower: StandbyTracker,
    /// The stamp of reads from now on; `None` if it must not be read.
    seen: Option<ReadStamp>,
    /// Bytes of the write-ahead log that it had replayed at the last poll.
    wal: u64,
    polled: bool,
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

    pub(super) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    pub(super) const fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Standby> {
        self.each.iter()
    }

    pub(super) fn is_any_in_use(&self, now: Timestamp) -> bool {
        self.each.iter().any(|standby| self.seen_of(standby, now).is_some())
    }

    /// The state of each.
    pub(super) fn states(&self, now: Timestamp) -> Vec<StandbyState> {
        let state = |standby: &Standby| StandbyState {
            in_use: self.seen_of(standby, now).is_some(),
            lag: standby.polls().seen.as_ref().map(|seen| lag(seen, now)),
            answered: standby.answered.load(Ordering::Relaxed),
            behind: standby.behind.load(Ordering::Relaxed),
            failed: standby.failed.load(Ordering::Relaxed),
        };
        self.each.iter().map(state).collect()
    }

    /// Reads from the next standby that may be read and is later than `since`, with half of the
    /// deadline as timeout. `accept` decides whether its stamp is current enough.
    pub(super) async fn read<T, R>(
        &self,
        now: Timestamp,
        since: Option<Timestamp>,
        accept: impl Fn(&ReadStamp) -> bool,
        read: impl FnOnce(Arc<dyn Upstream>) -> R,
    ) -> Option<Read<T>>
    where
        R: Future<Output = Result<Read<T>, UpstreamError>>,
    {
        let (standby, seen) = self.next(now, since)?;
        let begun = Instant::now();
        let found = timeout(self.deadline / 2, read(Arc::clone(&standby.upstream))).await;
        let found = found.unwrap_or(Err(UpstreamError::Timeout));
        standby.record(found.as_ref().err(), begun);
        let Ok(found) = found else {
            standby.failed.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // A change may have become known before the read or during it.
        if !accept(&seen) {
            standby.behind.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        standby.answered.fetch_add(1, Ordering::Relaxed);
        Some(Read { value: found.value, seen })
    }

    fn next(&self, now: Timestamp, since: Option<Timestamp>) -> Option<(&Standby, ReadStamp)> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..self.each.len()).find_map(|step| {
            let standby = &self.each[(first.wrapping_add(step)) % self.each.len()];
            let seen = self.seen_of(standby, now)?;
            since.is_none_or(|since| seen.read_at > since).then_some((standby, seen))
        })
    }

    fn seen_of(&self, standby: &Standby, now: Timestamp) -> Option<ReadStamp> {
        if standby.breaker.is_open() {
            return None;
        }
        let polls = standby.polls();
        let seen = polls.seen.as_ref()?;
        (lag(seen, now) <= self.max_lag).then(|| seen.clone())
    }

    /// Applies a poll of a standby that was made after the latest checkpoint of `tracker`.
    pub(super) fn polled(
        &self,
        standby: &Standby,
        found: Result<Option<Position>, UpstreamError>,
        tracker: &ReplicationTracker,
        (begun, now): (Instant, Timestamp),
    ) {
        standby.record(found.as_ref().err(), begun);
        let why = match &found {
            Ok(None) => Some("it does not report its replication position".to_owned()),
            Ok(Some(_)) => None,
            Err(error) => Some(error_chain(error)),
        };
        {
            let mut polls = standby.polls();
            let position = found.ok().flatten();
            polls.seen = position.as_ref().and_then(|at| polls.follower.polled(at, tracker));
            polls.wal = position.map_or(0, |position| position.wal);
        }
        self.log_state(standby, why, now);
    }

    /// Logs when a standby begins or ceases to be read.
    fn log_state(&self, standby: &Standby, why: Option<String>, now: Timestamp) {
        let in_use = self.seen_of(standby, now).is_some();
        let mut polls = standby.polls();
        // The first poll finds its position; only later ones, whether it advances.
        let is_first = !std::mem::replace(&mut polls.polled, true);
        if is_first && !in_use && why.is_none() {
            return;
        }
        if polls.logged.replace(in_use) == Some(in_use) {
            return;
        }
        let number = standby.number;
        if in_use {
            tracing::info!(standby = number, "the standby is read");
            return;
        }
        let why = why.unwrap_or_else(|| match &polls.seen {
            Some(seen) => format!("it lags by {} s", lag(seen, now).as_secs()),
            None => "it is not known to follow the primary".to_owned(),
        });
        tracing::warn!(standby = number, why, "the standby is not read");
    }

    /// The standbys of the current timeline, the most advanced first.
    pub(super) fn most_advanced_first(&self) -> Vec<&Standby> {
        let mut each: Vec<_> =
            self.each.iter().filter(|standby| standby.polls().seen.is_some()).collect();
        each.sort_by_key(|standby| std::cmp::Reverse(standby.polls().wal));
        each
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

    pub(super) fn upstream(&self) -> &Arc<dyn Upstream> {
        &self.upstream
    }

    /// Its replication position, to pass to [`Standbys::polled`]. A panic counts as a failure.
    pub(super) async fn position(&self) -> Result<Option<Position>, UpstreamError> {
        let found = contain(POLLS, self.upstream.position()).await;
        found.unwrap_or_else(|| Err(UpstreamError::Failed(TaskPanicked.into())))
    }

    fn record(&self, error: Option<&UpstreamError>, begun: Instant) {
        let why = || error.map(|error| error_chain(error));
        self.breaker.record(outcome(error), begun, Instant::now(), why);
    }

    fn polls(&self) -> MutexGuard<'_, StandbyPolls> {
        self.polls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lag(seen: &ReadStamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(seen.read_at)).unwrap_or_default()
}

/// What an error tells the circuit breaker about the server.
pub(super) fn outcome(error: Option<&UpstreamError>) -> CallOutcome {
    match error {
        Some(UpstreamError::Unreachable(_)) => CallOutcome::Refused,
        Some(UpstreamError::Timeout) => CallOutcome::Lost,
        _ => CallOutcome::Answered,
    }
}
