//! Indexes the known changes by scope, and checks reads against them.

use std::collections::HashMap;
use std::sync::Arc;

use super::change::{Change, ChangeScope, DependsOn};
use super::read::ReadStamp;
use super::snapshot::Snapshot;

/// Maximum number of changes of one scope that are kept individually. Older ones are replaced by the
/// snapshot of the poll that found the last of them, which sees all of them. (The newest transaction
/// among them would not do: while it stays open, no read would be current.)
pub(super) const RECENT: usize = 8;

/// Maximum number of scopes that are kept individually. Beyond it, every earlier read counts as
/// outdated.
pub(super) const SCOPES: usize = 200_000;

/// The known changes of one history.
#[derive(Debug, Default)]
pub(super) struct ChangeIndex {
    /// Changes that concern every gene.
    every_gene: ScopeChanges,
    /// All changes of genes.
    any_gene: ScopeChanges,
    /// Changes that concern every API key.
    every_key: ScopeChanges,
    scopes: HashMap<ChangeScope, ScopeChanges>,
}

/// The changes of one scope, each with the number of the poll that found it.
#[derive(Debug, Default, Clone)]
struct ScopeChanges {
    /// Sees all changes that are not in `recent`.
    covering_snapshot: Option<(Arc<Snapshot>, u64)>,
    recent: Vec<(u64, u64)>,
}

impl ScopeChanges {
    fn add(&mut self, xid: Option<u64>, found_by: &FoundBy) {
        match xid {
            Some(xid) if self.recent.len() < RECENT => self.recent.push((xid, found_by.poll)),
            _ => *self = Self::all_before(found_by),
        }
    }

    fn all_before(FoundBy { covering_snapshot, poll }: &FoundBy) -> Self {
        let covering_snapshot = Some((Arc::clone(covering_snapshot), *poll));
        Self { covering_snapshot, recent: Vec::new() }
    }

    /// Whether all changes are visible to a read: polls found them before it began, or its snapshot
    /// sees them.
    fn visible_to(&self, seen: &ReadStamp) -> bool {
        let sees = |sees: &dyn Fn(&Snapshot) -> bool| seen.snapshot.as_ref().is_some_and(sees);
        let covered = self.covering_snapshot.as_ref().is_none_or(|(covering, poll)| {
            *poll <= seen.poll || sees(&|snapshot| snapshot.sees_all_of(covering))
        });
        covered
            && self.recent.iter().all(|(xid, poll)| {
                *poll <= seen.poll || sees(&|snapshot: &Snapshot| snapshot.sees(*xid))
            })
    }

    fn newest_poll(&self) -> u64 {
        let recent = self.recent.iter().map(|(_, poll)| *poll);
        recent.chain(self.covering_snapshot.iter().map(|(_, poll)| *poll)).max().unwrap_or(0)
    }
}

/// The poll that found a change.
#[derive(Debug, Clone)]
pub(super) struct FoundBy {
    /// Sees every change that the poll found.
    pub(super) covering_snapshot: Arc<Snapshot>,
    /// Its number.
    pub(super) poll: u64,
}

impl FoundBy {
    /// The poll with this number and snapshot. A standby may show changes that its reliable snapshot
    /// does not see.
    pub(super) fn new(poll: u64, present: &Snapshot, changes: &[Change]) -> Self {
        let newest = changes.iter().filter_map(|change| change.xid).max();
        let unseen = newest.filter(|newest| !present.sees(*newest));
        let covering_snapshot = unseen.map_or_else(
            || present.clone(),
            |newest| Snapshot::before(present.xmax().max(newest + 1)),
        );
        Self { covering_snapshot: Arc::new(covering_snapshot), poll }
    }
}

impl ChangeIndex {
    /// Number of scopes that are kept individually.
    #[cfg(test)]
    pub(super) fn scopes(&self) -> usize {
        self.scopes.len()
    }

    pub(super) fn add(&mut self, Change { scope, xid }: Change, found_by: &FoundBy) {
        if !matches!(scope, ChangeScope::Key(_) | ChangeScope::Keys) {
            self.any_gene.add(xid, found_by);
        }
        match scope {
            ChangeScope::All => {
                self.every_gene.add(xid, found_by);
                self.every_key.add(xid, found_by);
            }
            ChangeScope::Genes => self.every_gene.add(xid, found_by),
            ChangeScope::Keys => self.every_key.add(xid, found_by),
            scope => {
                if self.scopes.len() == SCOPES && !self.scopes.contains_key(&scope) {
                    let all = ScopeChanges::all_before(found_by);
                    (self.every_gene, self.any_gene) = (all.clone(), all.clone());
                    (self.every_key, self.scopes) = (all, HashMap::new());
                }
                self.scopes.entry(scope).or_default().add(xid, found_by);
            }
        }
    }

    /// Whether every known change that concerns the read is visible to it.
    pub(super) fn shows_all(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
        self.concerning(depends_on).all(|changes| changes.visible_to(seen))
    }

    /// Whether a poll after the one with this number found a change that concerns the read.
    pub(super) fn has_changed_since(&self, depends_on: DependsOn<'_>, poll: u64) -> bool {
        self.concerning(depends_on).any(|changes| changes.newest_poll() > poll)
    }

    fn concerning(&self, depends_on: DependsOn<'_>) -> impl Iterator<Item = &ScopeChanges> {
        let (every, scope) = match depends_on {
            DependsOn::AllGenes => (&self.any_gene, None),
            DependsOn::Gene(id) => (&self.every_gene, Some(ChangeScope::Gene(id))),
            DependsOn::Domain(name) => {
                (&self.every_gene, Some(ChangeScope::Domain(name.as_str().into())))
            }
            DependsOn::Key(hash) => (&self.every_key, Some(ChangeScope::Key(*hash))),
        };
        let one = scope.and_then(|scope| self.scopes.get(&scope));
        std::iter::once(every).chain(one)
    }
}
