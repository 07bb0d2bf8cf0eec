//! Indexes the known changes by scope, and checks reads against them.

use std::collections::HashMap;
use std::sync::Arc;

use super::change::{Change, ChangeScope, Changes, DependsOn, HORIZON_HOURS};
use super::read::{Read, ReadStamp};
use super::snapshot::Snapshot;
use crate::registry::Timestamp;

/// Maximum number of changes of one scope that are kept individually. Older ones are replaced by the
/// snapshot of the poll that found the last of them, which sees all of them. (The newest transaction
/// among them would not do: while it stays open, no read would be current.)
pub(super) const RECENT: usize = 8;

/// Maximum number of scopes that are kept individually. Beyond it, every earlier read counts as
/// outdated.
pub(super) const SCOPES: usize = 200_000;

/// The known changes of a log that has been loaded.
#[derive(Debug)]
pub(super) struct ChangeIndex {
    /// The snapshot of the last successful poll.
    present: Arc<Snapshot>,
    polled_at: Timestamp,
    /// Whether the last poll failed.
    failing: bool,
    /// Earlier reads cannot be checked, and count as outdated.
    horizon: Timestamp,
    all: ScopeChanges,
    all_genes: ScopeChanges,
    scopes: HashMap<ChangeScope, ScopeChanges>,
}

/// The changes of one scope.
#[derive(Debug, Default)]
struct ScopeChanges {
    /// A read must see all that is visible in this snapshot.
    floor: Option<Arc<Snapshot>>,
    recent: Vec<u64>,
}

impl ScopeChanges {
    fn all_before(present: &Arc<Snapshot>) -> Self {
        Self { floor: Some(Arc::clone(present)), recent: Vec::new() }
    }

    /// Adds a change. `present` is the snapshot of the poll that found it.
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
    /// The snapshot of the last successful poll.
    pub(super) fn present(&self) -> &Snapshot {
        &self.present
    }

    /// Number of scopes that are kept individually.
    #[cfg(test)]
    pub(super) fn scopes(&self) -> usize {
        self.scopes.len()
    }

    /// Notes that a poll failed. Returns whether the one before succeeded.
    pub(super) fn fail(&mut self) -> bool {
        !std::mem::replace(&mut self.failing, true)
    }

    /// The index after the first poll. Reads before `since` count as outdated.
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
            all_genes: ScopeChanges::default(),
            scopes: HashMap::new(),
        };
        index.apply(found.value, &covering_snapshot);
        index
    }

    /// Applies a poll of the primary. Returns whether the result of any check may have changed.
    pub(super) fn advance(&mut self, found: Read<Changes>, present: Snapshot) -> bool {
        let went_back = present.xmax() < self.present.xmax();
        let changed = went_back
            || self.failing
            || !matches!(&found.value, Changes::These(changes) if changes.is_empty());
        self.failing = false;
        self.polled_at = found.seen.read_at;
        self.present = Arc::new(present);
        if went_back {
            // The database was restored: earlier reads count as outdated, and the lost changes will
            // never become visible.
            self.horizon = self.polled_at;
            (self.all, self.all_genes) = (ScopeChanges::default(), ScopeChanges::default());
            self.scopes.clear();
        }
        let present = Arc::clone(&self.present);
        self.apply(found.value, &present);
        changed
    }

    /// As [`Self::advance`], for a poll of a standby. It may lag behind what is known, and may show
    /// changes that its reliable snapshot does not see.
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
            self.all_genes.add(xid, present);
        }
        match scope {
            ChangeScope::All => self.all.add(xid, present),
            scope => self.scopes.entry(scope).or_default().add(xid, present),
        }
    }

    /// Drops the individual changes. Every earlier read counts as outdated.
    fn forget_scopes(&mut self, present: &Arc<Snapshot>) {
        self.all = ScopeChanges::all_before(present);
        self.all_genes = ScopeChanges::all_before(present);
        self.scopes = HashMap::new();
    }

    /// Whether every known change that concerns the read is visible in its snapshot.
    pub(super) fn is_current(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
        let Some(snapshot) = &seen.snapshot else { return false };
        let from_lost_timeline =
            seen.read_at <= self.polled_at && snapshot.xmax() > self.present.xmax();
        let unknown_changes = self.failing && seen.read_at <= self.polled_at;
        if seen.read_at < self.horizon || from_lost_timeline || unknown_changes {
            return false;
        }
        self.shows_all_known(depends_on, snapshot)
    }

    /// Whether a known change concerns the read and is not visible in its snapshot.
    pub(super) fn has_change_after(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
        seen.snapshot.as_ref().is_some_and(|snapshot| !self.shows_all_known(depends_on, snapshot))
    }

    /// Whether a change that concerns the read is visible at present but not in the snapshot
    /// `earlier`. A change that is not even visible at present does not count.
    pub(super) fn has_changed_since(&self, depends_on: DependsOn<'_>, earlier: &Snapshot) -> bool {
        !self.shows_all_known(depends_on, earlier)
            && self.shows_all_known(depends_on, &self.present)
    }

    fn shows_all_known(&self, depends_on: DependsOn<'_>, snapshot: &Snapshot) -> bool {
        self.all.visible_in(snapshot) && self.shows_dependencies(depends_on, snapshot)
    }

    fn shows_dependencies(&self, depends_on: DependsOn<'_>, snapshot: &Snapshot) -> bool {
        let scope = match depends_on {
            DependsOn::AllGenes => return self.all_genes.visible_in(snapshot),
            DependsOn::Gene(id) => ChangeScope::Gene(id),
            DependsOn::Domain(name) => ChangeScope::Domain(name.as_str().into()),
            DependsOn::Key(hash) => ChangeScope::Key(*hash),
        };
        self.scopes.get(&scope).is_none_or(|changes| changes.visible_in(snapshot))
    }
}

/// A snapshot that sees all that `present` sees and every one of the changes, of which a standby may
/// show some that its reliable snapshot does not see.
fn covering_snapshot(present: &Snapshot, changes: &Changes) -> Snapshot {
    let Changes::These(changes) = changes else { return present.clone() };
    let newest = changes.iter().map(|change| change.xid).filter(|xid| !present.sees(*xid)).max();
    newest
        .map_or_else(|| present.clone(), |newest| Snapshot::before(present.xmax().max(newest + 1)))
}
