//! Which of the facts that were read are still current.
//!
//! The upstream's change log says in which transaction a gene, a domain or a key changed; what
//! was read carries the snapshot it was read in. It is current if every known change that
//! concerns it is visible in that snapshot, which stays right when transactions commit in
//! another order than they began.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::Read;
use super::change_index::ChangeIndex;
use super::snapshot::Snapshot;
use crate::registry::{DomainName, GeneFilter, GeneId, KeyHash, Timestamp};

/// How far back the log is loaded at the start, in hours: longer than any answer is kept.
pub const HORIZON_HOURS: i64 = 25;

/// What a change is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ChangeScope {
    /// Anything.
    All,
    /// A gene.
    Gene(GeneId),
    /// A domain, by name.
    Domain(Box<str>),
    /// An API key, by the hash of the whole key.
    Key(KeyHash),
}

/// One row of the change log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What changed.
    pub scope: ChangeScope,
    /// The transaction that changed it.
    pub xid: u64,
}

/// What a look into the change log found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// These changes, all that were not visible in the snapshot asked about.
    These(Vec<Change>),
    /// More than can be listed.
    TooMany,
    /// There is no change log: ages alone count.
    NoLog,
}

/// When and in which state of the database something was read.
#[derive(Debug)]
pub struct ReadStamp {
    /// The upstream's time of the read.
    pub read_at: Timestamp,
    /// The snapshot; `None` where the upstream has none.
    pub snapshot: Option<Snapshot>,
    /// The log's version for which this was last found current.
    verified: AtomicU64,
}

impl ReadStamp {
    /// Something just read.
    pub fn new(read_at: Timestamp, snapshot: Option<Snapshot>) -> Self {
        Self { read_at, snapshot, verified: AtomicU64::new(0) }
    }

    /// Of two reads, the earlier: what is made of both is no more current than it.
    pub fn earlier<'a>(&'a self, other: &'a Self) -> &'a Self {
        if other.read_at < self.read_at { other } else { self }
    }
}

impl Clone for ReadStamp {
    fn clone(&self) -> Self {
        Self::new(self.read_at, self.snapshot.clone())
    }
}

impl PartialEq for ReadStamp {
    fn eq(&self, other: &Self) -> bool {
        self.read_at == other.read_at && self.snapshot == other.snapshot
    }
}

/// What concerns something that was read.
#[derive(Debug, Clone, Copy)]
pub enum DependsOn<'a> {
    /// One gene.
    Gene(GeneId),
    /// The genes of a domain.
    Domain(&'a DomainName),
    /// Any gene.
    Catalogue,
    /// One API key.
    Key(&'a KeyHash),
}

impl<'a> DependsOn<'a> {
    /// What concerns a search with this filter.
    pub fn of_filter(filter: &'a GeneFilter) -> Self {
        filter.domain.as_ref().map_or(Self::Catalogue, Self::Domain)
    }
}

/// The known part of the change log. Cheap to ask: while nothing changes, a fact that was found
/// current once costs two loads.
#[derive(Debug)]
pub struct ChangeLog {
    // Grows whenever an answer to `is_current` may have become another one.
    version: AtomicU64,
    state: RwLock<State>,
}

#[derive(Debug)]
enum State {
    /// Nothing is known yet, so nothing is known to be current; nor will be what was read before.
    Unloaded(Timestamp),
    /// There is no log: everything is.
    NoLog,
    ChangeIndex(ChangeIndex),
}

impl Default for ChangeLog {
    fn default() -> Self {
        Self { version: AtomicU64::new(1), state: RwLock::new(State::Unloaded(Timestamp::MIN)) }
    }
}

impl ChangeLog {
    /// The snapshot that the next look asks about; `None` when the log must be loaded first.
    pub fn present(&self) -> Option<Snapshot> {
        match &*self.read() {
            State::ChangeIndex(index) => Some(index.present().clone()),
            State::Unloaded(_) | State::NoLog => None,
        }
    }

    /// Whether it is known what is current: the log has been loaded, or there is none.
    pub fn is_settled(&self) -> bool {
        !matches!(*self.read(), State::Unloaded(_))
    }

    /// Whether a look at the primary saw less than one before it: a database restored from a copy,
    /// or a standby that was promoted and had not received everything.
    pub fn is_ahead_of(&self, found: &Read<Changes>) -> bool {
        match (&*self.read(), &found.seen.snapshot) {
            (State::ChangeIndex(index), Some(present)) => present.xmax() < index.present().xmax(),
            _ => false,
        }
    }

    /// Another history of the database has begun at `at`: nothing from before is worth anything,
    /// and what changed in the one that has ended will never be seen. The log must be loaded anew.
    pub fn begin_again(&self, at: Timestamp) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::ChangeIndex(_)) {
            *state = State::Unloaded(at);
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Takes in what a look at the primary found. Returns whether there is a log, where that is
    /// news.
    pub fn polled(&self, found: Read<Changes>) -> Option<bool> {
        self.apply(found, ChangeIndex::advance)
    }

    /// Takes in what a look at a standby found while the primary is away. What was known before
    /// stays known: it may not have come to the standby yet.
    pub fn polled_standby(&self, found: Read<Changes>) -> Option<bool> {
        self.apply(found, ChangeIndex::follow)
    }

    fn apply(
        &self,
        found: Read<Changes>,
        go_on: impl FnOnce(&mut ChangeIndex, Read<Changes>, Snapshot) -> bool,
    ) -> Option<bool> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let had_log = match *state {
            State::Unloaded(_) => None,
            State::NoLog => Some(false),
            State::ChangeIndex(_) => Some(true),
        };
        let has_log = found.value != Changes::NoLog;
        let changed = match (&mut *state, found.seen.snapshot.clone()) {
            (State::ChangeIndex(index), Some(present)) if has_log => go_on(index, found, present),
            (State::Unloaded(since), Some(present)) if has_log => {
                *state = State::ChangeIndex(ChangeIndex::begin(found, present, *since));
                true
            }
            (State::NoLog, Some(present)) if has_log => {
                *state = State::ChangeIndex(ChangeIndex::begin(found, present, Timestamp::MIN));
                true
            }
            _ => {
                *state = State::NoLog;
                had_log != Some(false)
            }
        };
        if changed {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
        (had_log != Some(has_log)).then_some(has_log)
    }

    /// The log could not be read.
    pub fn poll_failed(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let State::ChangeIndex(index) = &mut *state
            && index.fail()
        {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether every known change that concerns what was `seen` is visible in it.
    pub fn is_current(&self, concern: DependsOn<'_>, seen: &ReadStamp) -> bool {
        let version = self.version.load(Ordering::Acquire);
        if seen.verified.load(Ordering::Relaxed) == version {
            return true;
        }
        let current = match &*self.read() {
            State::Unloaded(_) => false,
            State::NoLog => true,
            State::ChangeIndex(index) => index.is_current(concern, seen),
        };
        if current {
            seen.verified.store(version, Ordering::Relaxed);
        }
        current
    }

    /// Whether a known change concerns what was `seen` and is not visible in it.
    pub fn is_known_to_have_changed(&self, concern: DependsOn<'_>, seen: &ReadStamp) -> bool {
        match &*self.read() {
            State::Unloaded(_) | State::NoLog => false,
            State::ChangeIndex(index) => index.has_change_after(concern, seen),
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "change_log_tests.rs"]
mod tests;
