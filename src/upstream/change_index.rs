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

/// The changes of one scope, each with the poll that found it.
#[derive(Debug, Default, Clone)]
struct ScopeChanges {
    /// Sees all changes that are not in `recent`.
    covering_snapshot: Option<(Arc<Snapshot>, FoundBy)>,
    recent: Vec<(u64, FoundBy)>,
}

impl ScopeChanges {
    fn add(&mut self, xid: Option<u64>, poll: &Poll) {
        match xid {
            // One transaction may change a scope several times.
            Some(xid) if self.recent.iter().any(|(known, _)| *known == xid) => {}
            Some(xid) if self.recent.len() < RECENT => self.recent.push((xid, poll.found_by)),
            _ => *self = Self::all_before(poll),
        }
    }

    fn all_before(Poll { covering_snapshot, found_by }: &Poll) -> Self {
        let covering_snapshot = Some((Arc::clone(covering_snapshot), *found_by));
        Self { covering_snapshot, recent: Vec::new() }
    }

    /// Whether all changes are visible to a read: by the poll that found them, or by its snapshot.
    fn visible_to(&self, seen: &ReadStamp) -> bool {
        let snapshot = seen.snapshot.as_ref();
        let sees_all = |(covering, found_by): &(Arc<Snapshot>, FoundBy)| {
            found_by.is_visible_to(seen) || snapshot.is_some_and(|one| one.sees_all_of(covering))
        };
        let sees = |(xid, found_by): &(u64, FoundBy)| {
            found_by.is_visible_to(seen) || snapshot.is_some_and(|one| one.sees(*xid))
        };
        self.covering_snapshot.iter().all(sees_all) && self.recent.iter().all(sees)
    }

    fn newest_poll(&self) -> u64 {
        let recent = self.recent.iter().map(|(_, found_by)| found_by.poll);
        let covered = self.covering_snapshot.iter().map(|(_, found_by)| found_by.poll);
        recent.chain(covered).max().unwrap_or(0)
    }
}

/// The poll that found a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundBy {
    /// Its number.
    pub(super) poll: u64,
    /// Bytes of the write-ahead log by its end; the maximum if they are unknown.
    pub(super) wal: u64,
}

impl FoundBy {
    /// Whether what the poll found is visible to a read: it began later at the same server, or its
    /// server had replayed what the poll saw.
    const fn is_visible_to(&self, seen: &ReadStamp) -> bool {
        self.poll <= seen.poll || self.wal <= seen.wal
    }
}

/// A poll whose changes are added.
#[derive(Debug)]
pub(super) struct Poll {
    /// Sees every change that it found.
    covering_snapshot: Arc<Snapshot>,
    found_by: FoundBy,
}

impl Poll {
    /// The poll with this snapshot. Of a standby, it is only the reliable part: `shown` is the number of
    /// transactions that the poll may show.
    pub(super) fn new(found_by: FoundBy, present: &Snapshot, shown: u64) -> Self {
        let shows_more = shown > present.transactions();
        let covering_snapshot =
            if shows_more { Snapshot::before(shown + 1) } else { present.clone() };
        Self { covering_snapshot: Arc::new(covering_snapshot), found_by }
    }
}

impl ChangeIndex {
    /// Number of scopes that are kept individually.
    #[cfg(test)]
    pub(super) fn scopes(&self) -> usize {
        self.scopes.len()
    }

    pub(super) fn add(&mut self, Change { scope, xid }: Change, poll: &Poll) {
        if !matches!(scope, ChangeScope::Key(_) | ChangeScope::Keys) {
            self.any_gene.add(xid, poll);
        }
        match scope {
            ChangeScope::All => {
                self.every_gene.add(xid, poll);
                self.every_key.add(xid, poll);
            }
            ChangeScope::Genes => self.every_gene.add(xid, poll),
            ChangeScope::Keys => self.every_key.add(xid, poll),
            scope => {
                if self.scopes.len() == SCOPES && !self.scopes.contains_key(&scope) {
                    let all = ScopeChanges::all_before(poll);
                    (self.every_gene, self.any_gene) = (all.clone(), all.clone());
                    (self.every_key, self.scopes) = (all, HashMap::new());
                }
                self.scopes.entry(scope).or_default().add(xid, poll);
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
            DependsOn::Nothing => (None, None),
            DependsOn::AllGenes => (Some(&self.any_gene), None),
            DependsOn::Gene(id) => (Some(&self.every_gene), Some(ChangeScope::Gene(id))),
            DependsOn::Domain(name) => {
                (Some(&self.every_gene), Some(ChangeScope::Domain(name.as_str().into())))
            }
            DependsOn::Key(hash) => (Some(&self.every_key), Some(ChangeScope::Key(*hash))),
        };
        let one = scope.and_then(|scope| self.scopes.get(&scope));
        every.into_iter().chain(one)
    }
}
