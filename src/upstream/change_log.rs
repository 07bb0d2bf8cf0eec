//! Which of the facts that were read are still current.
//!
//! The upstream's change log says in which transaction a gene, a domain or a key changed; what
//! was read carries the snapshot it was read in. It is current if every known change that
//! concerns it is visible in that snapshot, which stays right when transactions commit in
//! another order than they began.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::snapshot::Snapshot;
use super::{KeyHash, Read};
use crate::registry::{DomainName, GeneId, Timestamp};

/// Changes of one scope that are known one by one. Older ones are known by the look that found
/// the last of them: what was read after it has seen them all. (Not by the newest transaction
/// among them: one that stays open would keep everything from being current for as long.)
const RECENT: usize = 8;

/// Scopes that are known one by one; beyond that, everything read before counts as changed.
const SCOPES: usize = 200_000;

/// How far back the log is loaded at the start, in hours: longer than any answer is kept.
pub const HORIZON_HOURS: i64 = 25;

/// What a change is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
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
    pub scope: Scope,
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
pub struct Seen {
    /// The upstream's time of the read.
    pub read_at: Timestamp,
    /// The snapshot; `None` where the upstream has none.
    pub snapshot: Option<Snapshot>,
    /// The log's version for which this was last found current.
    verified: AtomicU64,
}

impl Seen {
    /// Something just read.
    pub fn new(read_at: Timestamp, snapshot: Option<Snapshot>) -> Self {
        Self { read_at, snapshot, verified: AtomicU64::new(0) }
    }

    /// Of two reads, the earlier: what is made of both is no more current than it.
    pub fn earlier<'a>(&'a self, other: &'a Self) -> &'a Self {
        if other.read_at < self.read_at { other } else { self }
    }
}

impl Clone for Seen {
    fn clone(&self) -> Self {
        Self::new(self.read_at, self.snapshot.clone())
    }
}

impl PartialEq for Seen {
    fn eq(&self, other: &Self) -> bool {
        self.read_at == other.read_at && self.snapshot == other.snapshot
    }
}

/// What concerns something that was read.
#[derive(Debug, Clone, Copy)]
pub enum Concern<'a> {
    /// One gene.
    Gene(GeneId),
    /// The genes of a domain.
    Domain(&'a DomainName),
    /// Any gene.
    Catalogue,
    /// One API key.
    Key(&'a KeyHash),
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
    /// Nothing is known yet, so nothing is known to be current.
    Unloaded,
    /// There is no log: everything is.
    NoLog,
    Loaded(Loaded),
}

#[derive(Debug)]
struct Loaded {
    /// The state of the database at the last good look.
    present: Arc<Snapshot>,
    looked_at: Timestamp,
    /// Whether the last look failed.
    failing: bool,
    /// What was read before can't be judged.
    horizon: Timestamp,
    all: Marks,
    catalogue: Marks,
    scopes: HashMap<Scope, Marks>,
}

/// The changes of one scope.
#[derive(Debug, Default)]
struct Marks {
    /// All that is visible in this must have been seen.
    floor: Option<Arc<Snapshot>>,
    recent: Vec<u64>,
}

impl Marks {
    fn all_before(present: &Arc<Snapshot>) -> Self {
        Self { floor: Some(Arc::clone(present)), recent: Vec::new() }
    }

    /// A change that a look found, and the state of the database that it saw.
    fn add(&mut self, xid: u64, present: &Arc<Snapshot>) {
        if self.recent.contains(&xid) {
            return;
        }
        if self.recent.len() == RECENT {
            *self = Self::all_before(present);
        } else {
            self.recent.push(xid);
        }
    }

    fn visible_in(&self, snapshot: &Snapshot) -> bool {
        self.floor.as_ref().is_none_or(|floor| snapshot.sees_all_of(floor))
            && self.recent.iter().all(|xid| snapshot.sees(*xid))
    }
}

impl Default for ChangeLog {
    fn default() -> Self {
        Self { version: AtomicU64::new(1), state: RwLock::new(State::Unloaded) }
    }
}

impl ChangeLog {
    /// The snapshot that the next look asks about; `None` when the log must be loaded first.
    pub fn present(&self) -> Option<Snapshot> {
        match &*self.read() {
            State::Loaded(loaded) => Some(Snapshot::clone(&loaded.present)),
            State::Unloaded | State::NoLog => None,
        }
    }

    /// Whether it is known what is current: the log has been loaded, or there is none.
    pub fn is_settled(&self) -> bool {
        !matches!(*self.read(), State::Unloaded)
    }

    /// Takes in what a look found. Returns whether there is a log, where that is news.
    pub fn looked(&self, found: Read<Changes>) -> Option<bool> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let had_log = match *state {
            State::Unloaded => None,
            State::NoLog => Some(false),
            State::Loaded(_) => Some(true),
        };
        let has_log = found.value != Changes::NoLog;
        let changed = match (&mut *state, found.seen.snapshot.clone()) {
            (State::Loaded(loaded), Some(present)) if has_log => loaded.advance(found, present),
            (_, Some(present)) if has_log => {
                *state = State::Loaded(Loaded::begin(found, present));
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
    pub fn look_failed(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let State::Loaded(loaded) = &mut *state
            && !loaded.failing
        {
            loaded.failing = true;
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether every known change that concerns what was `seen` is visible in it.
    pub fn is_current(&self, concern: Concern<'_>, seen: &Seen) -> bool {
        let version = self.version.load(Ordering::Acquire);
        if seen.verified.load(Ordering::Relaxed) == version {
            return true;
        }
        let current = match &*self.read() {
            State::Unloaded => false,
            State::NoLog => true,
            State::Loaded(loaded) => loaded.is_current(concern, seen),
        };
        if current {
            seen.verified.store(version, Ordering::Relaxed);
        }
        current
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loaded {
    fn begin(found: Read<Changes>, present: Snapshot) -> Self {
        let looked_at = found.seen.read_at;
        let back = jiff::SignedDuration::from_hours(HORIZON_HOURS);
        let mut loaded = Self {
            present: Arc::new(present),
            looked_at,
            failing: false,
            horizon: looked_at.saturating_sub(back).unwrap_or(Timestamp::MIN),
            all: Marks::default(),
            catalogue: Marks::default(),
            scopes: HashMap::new(),
        };
        loaded.take_in(found.value);
        loaded
    }

    /// Returns whether something that was current may no longer be, or the other way round.
    fn advance(&mut self, found: Read<Changes>, present: Snapshot) -> bool {
        let went_back = present.xmax() < self.present.xmax();
        let changed = went_back
            || self.failing
            || !matches!(&found.value, Changes::These(changes) if changes.is_empty());
        self.failing = false;
        self.looked_at = found.seen.read_at;
        self.present = Arc::new(present);
        if went_back {
            // A restored database: nothing from before it is worth anything, and what changed in
            // the future that it has lost will never be seen.
            self.horizon = self.looked_at;
            (self.all, self.catalogue) = (Marks::default(), Marks::default());
            self.scopes.clear();
        }
        self.take_in(found.value);
        changed
    }

    fn take_in(&mut self, changes: Changes) {
        match changes {
            Changes::NoLog => {}
            Changes::TooMany => self.forget_scopes(),
            Changes::These(changes) => {
                changes.into_iter().for_each(|change| self.mark(change));
                if self.scopes.len() > SCOPES {
                    self.forget_scopes();
                }
            }
        }
    }

    fn mark(&mut self, Change { scope, xid }: Change) {
        let present = &self.present;
        if !matches!(scope, Scope::Key(_)) {
            self.catalogue.add(xid, present);
        }
        match scope {
            Scope::All => self.all.add(xid, present),
            scope => self.scopes.entry(scope).or_default().add(xid, present),
        }
    }

    /// What is not known one by one any more counts as changed.
    fn forget_scopes(&mut self) {
        self.all = Marks::all_before(&self.present);
        self.catalogue = Marks::all_before(&self.present);
        self.scopes = HashMap::new();
    }

    fn is_current(&self, concern: Concern<'_>, seen: &Seen) -> bool {
        let Some(snapshot) = &seen.snapshot else { return false };
        let from_another_past =
            seen.read_at <= self.looked_at && snapshot.xmax() > self.present.xmax();
        let unknown_changes = self.failing && seen.read_at <= self.looked_at;
        if seen.read_at < self.horizon || from_another_past || unknown_changes {
            return false;
        }
        self.all.visible_in(snapshot) && self.concerning(concern, snapshot)
    }

    fn concerning(&self, concern: Concern<'_>, snapshot: &Snapshot) -> bool {
        let scope = match concern {
            Concern::Catalogue => return self.catalogue.visible_in(snapshot),
            Concern::Gene(id) => Scope::Gene(id),
            Concern::Domain(name) => Scope::Domain(name.as_str().into()),
            Concern::Key(hash) => Scope::Key(*hash),
        };
        self.scopes.get(&scope).is_none_or(|marks| marks.visible_in(snapshot))
    }
}

#[cfg(test)]
#[path = "change_log_tests.rs"]
mod tests;
