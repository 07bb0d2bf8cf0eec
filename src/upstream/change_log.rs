//! Decides whether a read is still current.
//!
//! The upstream's change log names the transaction in which a gene, a domain or a key changed, and
//! every read carries its snapshot. A read is outdated if a known change that concerns it is not
//! visible to it. This holds also when transactions commit in another order than they began.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use super::change::{Change, Changes, DependsOn, HORIZON_HOURS};
use super::change_index::{ChangeIndex, FoundBy, Poll};
use super::clock::BootInstant;
use super::history::ServerRun;
use super::read::{Read, ReadStamp};
use super::snapshot::Snapshot;

/// How far back the log is loaded, in microseconds.
const HORIZON_US: i64 = HORIZON_HOURS * 3_600_000_000;

/// Within this after its commit, every request sees a change.
const VISIBLE_WITHIN: Duration = Duration::from_secs(2);

/// How current a read is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Currency {
    /// No known change contradicts it, and no change of more than two seconds ago is unknown.
    Confirmed,
    /// No known change contradicts it, but the changes of the last seconds are unknown.
    Unconfirmed,
    /// A known change contradicts it, or it belongs to another history of the database.
    Outdated,
}

/// The known part of the change log. Cheap to query: while nothing changes, checking a read that
/// was checked before costs three atomic loads.
#[derive(Debug)]
pub struct ChangeLog {
    /// Grows whenever a read that was not outdated may have become so.
    version: AtomicU64,
    /// When the last successful poll began, as [`BootInstant`]; the maximum if there is no log.
    polled_at: AtomicI64,
    state: RwLock<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    /// The number of the present history of the database; 0 before the first.
    history: u64,
    /// The server that was polled last.
    server: Option<ServerRun>,
    /// The number of successful polls.
    poll: u64,
    /// What the next poll need not find.
    since: Option<Snapshot>,
    /// The transactions that the last poll of a standby found. The next poll finds them again.
    at_standby: HashSet<u64>,
    /// A transaction that committed after this history began.
    witness: Option<u64>,
    /// The database's time from which on all changes are known, in microseconds from 1970. By it, reads are
    /// too old if the database's clock stepped forward before the log was loaded, or back since.
    loaded_from: i64,
    /// What was committed when the log was loaded. Reads that see it show what was not loaded.
    loaded_at: Option<Snapshot>,
    index: LogIndex,
}

#[derive(Debug, Default)]
enum LogIndex {
    #[default]
    Unloaded,
    /// The upstream has no log.
    Absent,
    Loaded(ChangeIndex),
}

/// What was known when a read or a load began.
#[derive(Debug, Clone, Copy)]
pub struct ReadStart {
    began: BootInstant,
    history: u64,
    poll: u64,
    server: Option<ServerRun>,
}

impl ReadStart {
    /// The stamp of a read that began then.
    pub(super) fn stamp(&self, seen: ReadStamp) -> ReadStamp {
        let Self { history, poll, server, .. } = *self;
        let began = self.began.min(seen.began);
        let is_polled = seen.server == server;
        let (poll, confirmed_at) = if is_polled { (poll, began) } else { (0, BootInstant::MIN) };
        // The snapshot was taken between these moments.
        let (sent_at, not_before, shown_at) = (began, began, seen.began);
        let seen = ReadStamp { began, sent_at, not_before, shown_at, ..seen };
        ReadStamp { confirmed_at, history, is_polled, poll, ..seen }
    }

    /// The stamp of a read of any server that has replayed the log up to `wal`, where it shows what
    /// the poll saw that began at `began`.
    pub(super) fn stamp_of_poll(&self, seen: ReadStamp, began: BootInstant, wal: u64) -> ReadStamp {
        let (history, is_polled) = (self.history, true);
        let [not_before, shown_at, confirmed_at] = [began; 3];
        ReadStamp { began, not_before, shown_at, confirmed_at, history, is_polled, wal, ..seen }
    }
}

impl Default for ChangeLog {
    fn default() -> Self {
        let polled_at = AtomicI64::new(BootInstant::MIN.to_micros());
        Self { version: AtomicU64::new(1), polled_at, state: RwLock::default() }
    }
}

impl ChangeLog {
    /// What is known now, at the start of a read.
    pub fn read_start(&self) -> ReadStart {
        let state = self.read();
        let LogState { history, poll, server, .. } = *state;
        ReadStart { began: BootInstant::now(), history, poll, server }
    }

    /// The snapshot to pass to the next poll; `None` if the log must be loaded.
    pub(super) fn since(&self) -> Option<Snapshot> {
        self.read().since.clone()
    }

    /// The number of the present history; 0 before the first.
    pub fn history(&self) -> u64 {
        self.read().history
    }

    /// A transaction that is known to have committed after the present history began.
    pub(super) fn witness(&self) -> Option<u64> {
        self.read().witness
    }

    /// Whether there is a log, as far as it is known.
    pub fn exists(&self) -> bool {
        self.polled_at.load(Ordering::Relaxed) != i64::MAX
    }

    /// Whether the log has been loaded, or there is none.
    pub fn is_settled(&self) -> bool {
        !matches!(self.read().index, LogIndex::Unloaded)
    }

    /// Begins another history of the database: all earlier reads are outdated, and the log must be
    /// loaded. `server`: the primary that began it, if it has been reached. Its reads show what earlier
    /// polls have found, as far as that belongs to this history.
    pub fn begin_history(&self, number: u64, server: Option<ServerRun>) {
        let mut state = self.write();
        *state = LogState { history: number, server, poll: state.poll, ..LogState::default() };
        self.polled_at.store(BootInstant::MIN.to_micros(), Ordering::Release);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Applies a poll that began at `began`. `wal`: bytes of the write-ahead log by its end. Returns its
    /// number, and whether there is a log if that has changed.
    pub fn apply(
        &self,
        found: Read<Changes>,
        began: BootInstant,
        wal: Option<u64>,
    ) -> (u64, Option<bool>) {
        let mut state = self.write();
        let had_log = match &state.index {
            LogIndex::Unloaded => None,
            LogIndex::Absent => Some(false),
            LogIndex::Loaded(_) => Some(true),
        };
        if had_log != Some(true) {
            state.loaded_from = found.seen.read_at.as_microsecond() - HORIZON_US;
            state.loaded_at.clone_from(&found.seen.snapshot);
        }
        state.poll += 1;
        let shown = found.seen.shown_transactions;
        state.server = found.seen.server;
        let (has_log, is_news) = match (found.value, found.seen.snapshot) {
            (Changes::These(changes), Some(present)) => {
                let found_by = FoundBy { poll: state.poll, wal: wal.unwrap_or(u64::MAX) };
                let poll = Poll::new(found_by, &present, shown);
                (true, state.add(changes, present, &poll))
            }
            _ => {
                (state.index, state.since) = (LogIndex::Absent, None);
                (false, false)
            }
        };
        if is_news || had_log != Some(has_log) {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
        let polled_at = if has_log { began.to_micros() } else { i64::MAX };
        self.polled_at.store(polled_at, Ordering::Release);
        (state.poll, (had_log != Some(has_log)).then_some(has_log))
    }

    /// How current a read is at the moment `now`.
    pub fn currency(
        &self,
        depends_on: DependsOn<'_>,
        seen: &ReadStamp,
        now: BootInstant,
    ) -> Currency {
        // Loaded before the version: a poll that is counted here has its changes counted there.
        let polled_at = self.polled_at.load(Ordering::Acquire);
        let version = self.version.load(Ordering::Acquire);
        if seen.verified.load(Ordering::Relaxed) != version {
            if self.is_outdated(depends_on, seen) {
                return Currency::Outdated;
            }
            seen.verified.store(version, Ordering::Relaxed);
        }
        let polled_at = if seen.is_polled || polled_at == i64::MAX { polled_at } else { i64::MIN };
        let confirmed_at = seen.confirmed_at.max(BootInstant::from_micros(polled_at));
        let is_confirmed = now.since(confirmed_at) < VISIBLE_WITHIN;
        if is_confirmed { Currency::Confirmed } else { Currency::Unconfirmed }
    }

    fn is_outdated(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
        let state = self.read();
        seen.history != state.history || state.shows_changes(depends_on, seen) == Some(false)
    }

    /// Whether the read shows every known change that concerns it; `None` while the log is not loaded.
    /// Reads in an earlier history are judged by their snapshot, which holds unless the fail-over lost
    /// transactions.
    pub fn shows_changes(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> Option<bool> {
        self.read().shows_changes(depends_on, seen)
    }

    /// Whether a request that is made now may get the result of a load that began then: no change
    /// that concerns it has become known since, and none can have been committed that it must see.
    pub fn may_share(&self, depends_on: DependsOn<'_>, load: &ReadStart) -> bool {
        let state = self.read();
        let has_changed = match &state.index {
            LogIndex::Loaded(index) => index.has_changed_since(depends_on, load.poll),
            LogIndex::Unloaded | LogIndex::Absent => false,
        };
        load.history == state.history && !has_changed && self.knows_changes_since(load.began)
    }

    /// Whether each change since `moment` is known that a request which is made now must see.
    pub fn knows_changes_since(&self, moment: BootInstant) -> bool {
        let polled_at = BootInstant::from_micros(self.polled_at.load(Ordering::Acquire));
        moment.max(polled_at).elapsed() < VISIBLE_WITHIN
    }

    fn read(&self) -> RwLockReadGuard<'_, LogState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, LogState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    fn shows_changes(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> Option<bool> {
        match &self.index {
            LogIndex::Loaded(index) => {
                let snapshots = seen.snapshot.as_ref().zip(self.loaded_at.as_ref());
                let is_covered = seen.read_at.as_microsecond() >= self.loaded_from
                    || snapshots.is_some_and(|(seen, loaded)| seen.sees_all_of(loaded));
                Some(is_covered && index.shows_all(depends_on, seen))
            }
            LogIndex::Unloaded | LogIndex::Absent => None,
        }
    }

    /// Adds what a poll with the snapshot `present` found. Returns whether something is new.
    fn add(&mut self, mut changes: Vec<Change>, present: Snapshot, poll: &Poll) -> bool {
        let is_at_standby = self.server.is_some_and(|server| server.is_standby);
        let found: HashSet<u64> = if is_at_standby {
            changes.iter().filter_map(|change| change.xid).collect()
        } else {
            HashSet::new()
        };
        let known = std::mem::replace(&mut self.at_standby, found);
        changes.retain(|change| change.xid.is_none_or(|xid| !known.contains(&xid)));
        if let LogIndex::Loaded(_) = self.index {
            self.witness = changes.iter().filter_map(|change| change.xid).max().or(self.witness);
        } else {
            self.index = LogIndex::Loaded(ChangeIndex::default());
        }
        // A standby may lag behind what is known.
        if self.since.as_ref().is_none_or(|since| !is_at_standby || present.sees_all_of(since)) {
            self.since = Some(present);
        }
        let LogIndex::Loaded(index) = &mut self.index else { return false };
        let is_news = !changes.is_empty();
        changes.into_iter().for_each(|change| index.add(change, poll));
        is_news
    }
}

#[cfg(test)]
#[path = "change_log_tests.rs"]
mod tests;
