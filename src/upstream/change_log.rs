//! Decides whether a read is still current.
//!
//! The upstream's change log names the transaction in which a gene, a domain or a key changed, and
//! every read carries its snapshot. A read is current if every known change that concerns it is
//! visible in its snapshot. This holds also when transactions commit in another order than they
//! began.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::change::{Changes, DependsOn};
use super::change_index::ChangeIndex;
use super::read::{Read, ReadStamp};
use super::snapshot::Snapshot;
use crate::registry::Timestamp;

/// The known part of the change log. Cheap to query: while nothing changes, checking a read that
/// was current before costs two atomic loads.
#[derive(Debug)]
pub struct ChangeLog {
    /// Grows whenever a result of `is_current` may have changed.
    version: AtomicU64,
    state: RwLock<LogState>,
}

#[derive(Debug)]
enum LogState {
    /// Not loaded yet: no read is known to be current. Reads before this time never will be.
    Unloaded(Timestamp),
    /// There is no log: every read counts as current.
    NoLog,
    ChangeIndex(ChangeIndex),
}

impl Default for ChangeLog {
    fn default() -> Self {
        Self { version: AtomicU64::new(1), state: RwLock::new(LogState::Unloaded(Timestamp::MIN)) }
    }
}

impl ChangeLog {
    /// The snapshot to pass to the next poll; `None` if the log must be loaded first.
    pub fn present(&self) -> Option<Snapshot> {
        match &*self.read() {
            LogState::ChangeIndex(index) => Some(index.present().clone()),
            LogState::Unloaded(_) | LogState::NoLog => None,
        }
    }

    /// Whether the log has been loaded, or there is none.
    pub fn is_settled(&self) -> bool {
        !matches!(*self.read(), LogState::Unloaded(_))
    }

    /// Whether a poll of the primary saw less than an earlier one: the database was restored from a
    /// backup, or a standby was promoted that had not received everything.
    pub fn is_ahead_of(&self, found: &Read<Changes>) -> bool {
        match (&*self.read(), &found.seen.snapshot) {
            (LogState::ChangeIndex(index), Some(present)) => {
                present.xmax() < index.present().xmax()
            }
            _ => false,
        }
    }

    /// The database began a new timeline at `at`: no read before it is current, and the changes of
    /// the old timeline will never become visible. The log must be loaded anew.
    pub fn begin_timeline(&self, at: Timestamp) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, LogState::ChangeIndex(_)) {
            *state = LogState::Unloaded(at);
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Applies a poll of the primary. Returns whether there is a log, if that has changed.
    pub fn polled(&self, found: Read<Changes>) -> Option<bool> {
        self.apply(found, ChangeIndex::advance)
    }

    /// Applies a poll of a standby while the primary is unavailable. Known changes stay known,
    /// because the standby may not have replayed them yet.
    pub fn polled_standby(&self, found: Read<Changes>) -> Option<bool> {
        self.apply(found, ChangeIndex::follow)
    }

    fn apply(
        &self,
        found: Read<Changes>,
        update: impl FnOnce(&mut ChangeIndex, Read<Changes>, Snapshot) -> bool,
    ) -> Option<bool> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let had_log = match *state {
            LogState::Unloaded(_) => None,
            LogState::NoLog => Some(false),
            LogState::ChangeIndex(_) => Some(true),
        };
        let has_log = found.value != Changes::NoLog;
        let changed = match (&mut *state, found.seen.snapshot.clone()) {
            (LogState::ChangeIndex(index), Some(present)) if has_log => {
                update(index, found, present)
            }
            (LogState::Unloaded(since), Some(present)) if has_log => {
                *state = LogState::ChangeIndex(ChangeIndex::begin(found, present, *since));
                true
            }
            (LogState::NoLog, Some(present)) if has_log => {
                *state = LogState::ChangeIndex(ChangeIndex::begin(found, present, Timestamp::MIN));
                true
            }
            _ => {
                *state = LogState::NoLog;
                had_log != Some(false)
            }
        };
        if changed {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
        (had_log != Some(has_log)).then_some(has_log)
    }

    /// Notes that a poll failed.
    pub fn poll_failed(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let LogState::ChangeIndex(index) = &mut *state
            && index.fail()
        {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether every known change that concerns the read is visible in its snapshot.
    pub fn is_current(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
        let version = self.version.load(Ordering::Acquire);
        if seen.verified.load(Ordering::Relaxed) == version {
            return true;
        }
        let current = match &*self.read() {
            LogState::Unloaded(_) => false,
            LogState::NoLog => true,
            LogState::ChangeIndex(index) => index.is_current(depends_on, seen),
        };
        if current {
            seen.verified.store(version, Ordering::Relaxed);
        }
        current
    }

    /// Whether a known change concerns the read and is not visible in its snapshot.
    pub fn is_known_to_have_changed(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
        match &*self.read() {
            LogState::Unloaded(_) | LogState::NoLog => false,
            LogState::ChangeIndex(index) => index.has_change_after(depends_on, seen),
        }
    }

    /// Whether a change of the read's result has become visible since the poll with the snapshot
    /// `earlier`.
    pub fn has_changed_since(&self, depends_on: DependsOn<'_>, earlier: &Snapshot) -> bool {
        match &*self.read() {
            LogState::Unloaded(_) | LogState::NoLog => false,
            LogState::ChangeIndex(index) => index.has_changed_since(depends_on, earlier),
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, LogState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "change_log_tests.rs"]
mod tests;
