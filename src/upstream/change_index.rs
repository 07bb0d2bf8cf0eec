//! The changes that are known, and what they say of something that was read.

use std::collections::HashMap;
use std::sync::Arc;

use super::Read;
use super::change_log::{Change, ChangeScope, Changes, DependsOn, HORIZON_HOURS, ReadStamp};
use super::snapshot::Snapshot;
use crate::registry::Timestamp;

/// Changes of one scope that are known one by one. Older ones are known by the look that found
/// the last of them: what was read after it has seen them all. (Not by the newest transaction
/// among them: one that stays open would keep everything from being current for as long.)
pub(super) const RECENT: usize = 8;

/// Scopes that are known one by one; beyond that, everything read before counts as changed.
pub(super) const SCOPES: usize = 200_000;

/// A log that has been read.
#[derive(Debug)]
pub(super) struct ChangeIndex {
    /// The state of the database at the last good look.
    present: Arc<Snapshot>,
    polled_at: Timestamp,
    /// Whether the last look failed.
    failing: bool,
    /// What was read before can't be judged.
    horizon: Timestamp,
    all: ScopeChanges,
    catalogue: ScopeChanges,
    scopes: HashMap<ChangeScope, ScopeChanges>,
}

/// The changes of one scope.
#[derive(Debug, Default)]
struct ScopeChanges {
    /// All that is visible in this must have been seen.
    floor: Option<Arc<Snapshot>>,
    recent: Vec<u64>,
}

impl ScopeChanges {
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

impl ChangeIndex {
    /// The state of the database at the last good look.
    pub(super) fn present(&self) -> &Snapshot {
        &self.present
    }

    /// Scopes that are known one by one.
    #[cfg(test)]
    pub(super) fn scopes(&self) -> usize {
        self.scopes.len()
    }

    /// The log could not be read. Returns whether that is news.
    pub(super) fn fail(&mut self) -> bool {
        !std::mem::replace(&mut self.failing, true)
    }

    /// The first look. What was read before `since` is worth nothing.
    pub(super) fn begin(found: Read<Changes>, present: Snapshot, since: Timestamp) -> Self {
        let polled_at = found.seen.read_at;
        let back = jiff::SignedDuration::from_hours(HORIZON_HOURS);
        let horizon = polled_at.saturating_sub(back).unwrap_or(Timestamp::MIN).max(since);
        let covering_snapshot = Arc::new(covering_snapshot(&present, &found.value));
        let mut index = Self {
            present: Arc::new(present),
            polled_at,
            failing: false,
            horizon,
            all: ScopeChanges::default(),
            catalogue: ScopeChanges::default(),
            scopes: HashMap::new(),
        };
        index.apply(found.value, &covering_snapshot);
        index
    }

    /// Returns whether something that was current may no longer be, or the other way round.
    pub(super) fn advance(&mut self, found: Read<Changes>, present: Snapshot) -> bool {
        let went_back = present.xmax() < self.present.xmax();
        let changed = went_back
            || self.failing
            || !matches!(&found.value, Changes::These(changes) if changes.is_empty());
        self.failing = false;
        self.polled_at = found.seen.read_at;
        self.present = Arc::new(present);
        if went_back {
            // A restored database: nothing from before it is worth anything, and what changed in
            // the future that it has lost will never be seen.
            self.horizon = self.polled_at;
            (self.all, self.catalogue) = (ScopeChanges::default(), ScopeChanges::default());
            self.scopes.clear();
        }
        let present = Arc::clone(&self.present);
        self.apply(found.value, &present);
        changed
    }

    /// As [`Self::advance`], on a standby: it may be behind what is known, and may show changes
    /// above what it is certain to have seen all of.
    pub(super) fn follow(&mut self, found: Read<Changes>, seen: Snapshot) -> bool {
        let changed =
            self.failing || !matches!(&found.value, Changes::These(changes) if changes.is_empty());
        self.failing = false;
        self.polled_at = self.polled_at.max(found.seen.read_at);
        if seen.sees_all_of(&self.present) {
            self.present = Arc::new(seen);
        }
        let covering_snapshot = Arc::new(covering_snapshot(&self.present, &found.value));
        self.apply(found.value, &covering_snapshot);
        changed
    }

    /// `covering_snapshot` sees all of the changes.
    fn apply(&mut self, changes: Changes, covering_snapshot: &Arc<Snapshot>) {
        match changes {
            Changes::NoLog => {}
            Changes::TooMany => self.forget_scopes(covering_snapshot),
            Changes::These(changes) => {
                changes.into_iter().for_each(|change| self.mark(change, covering_snapshot));
                if self.scopes.len() > SCOPES {
                    self.forget_scopes(covering_snapshot);
                }
            }
        }
    }

    fn mark(&mut self, Change { scope, xid }: Change, present: &Arc<Snapshot>) {
        if !matches!(scope, ChangeScope::Key(_)) {
            self.catalogue.add(xid, present);
        }
        match scope {
            ChangeScope::All => self.all.add(xid, present),
            scope => self.scopes.entry(scope).or_default().add(xid, present),
        }
    }

    /// What is not known one by one any more counts as changed.
    fn forget_scopes(&mut self, present: &Arc<Snapshot>) {
        self.all = ScopeChanges::all_before(present);
        self.catalogue = ScopeChanges::all_before(present);
        self.scopes = HashMap::new();
    }

    /// Whether every known change that concerns what was `seen` is visible in it.
    pub(super) fn is_current(&self, concern: DependsOn<'_>, seen: &ReadStamp) -> bool {
        let Some(snapshot) = &seen.snapshot else { return false };
        let from_another_past =
            seen.read_at <= self.polled_at && snapshot.xmax() > self.present.xmax();
        let unknown_changes = self.failing && seen.read_at <= self.polled_at;
        if seen.read_at < self.horizon || from_another_past || unknown_changes {
            return false;
        }
        self.shows_all_known(concern, snapshot)
    }

    /// Whether a known change concerns what was `seen` and is not visible in it.
    pub(super) fn has_change_after(&self, concern: DependsOn<'_>, seen: &ReadStamp) -> bool {
        seen.snapshot.as_ref().is_some_and(|snapshot| !self.shows_all_known(concern, snapshot))
    }

    fn shows_all_known(&self, concern: DependsOn<'_>, snapshot: &Snapshot) -> bool {
        self.all.visible_in(snapshot) && self.concerning(concern, snapshot)
    }

    fn concerning(&self, concern: DependsOn<'_>, snapshot: &Snapshot) -> bool {
        let scope = match concern {
            DependsOn::Catalogue => return self.catalogue.visible_in(snapshot),
            DependsOn::Gene(id) => ChangeScope::Gene(id),
            DependsOn::Domain(name) => ChangeScope::Domain(name.as_str().into()),
            DependsOn::Key(hash) => ChangeScope::Key(*hash),
        };
        self.scopes.get(&scope).is_none_or(|marks| marks.visible_in(snapshot))
    }
}

/// A snapshot that sees what `present` sees, and every one of the changes: a standby may show
/// some that are above what it is certain to have seen all of.
fn covering_snapshot(present: &Snapshot, changes: &Changes) -> Snapshot {
    let Changes::These(changes) = changes else { return present.clone() };
    let newest = changes.iter().map(|change| change.xid).filter(|xid| !present.sees(*xid)).max();
    newest
        .map_or_else(|| present.clone(), |newest| Snapshot::before(present.xmax().max(newest + 1)))
}
