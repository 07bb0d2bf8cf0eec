//! Collects the API keys that polls of the change log found to be changed, until the cache of key
//! records takes them. Up to a bound their hashes are kept; beyond it every key counts as changed.

use std::collections::HashSet;
use std::sync::Mutex;

use tokio::sync::Notify;

use super::change::{ChangeScope, Changes};
use crate::registry::KeyHash;
use crate::sync::lock;

/// Maximum number of hashes that are kept, of 32 bytes each.
const MAX_HASHES: usize = 50_000;

/// API keys that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedKeys {
    /// The keys with these hashes.
    These(HashSet<KeyHash>),
    /// Possibly any key.
    All,
}

impl Default for ChangedKeys {
    fn default() -> Self {
        Self::These(HashSet::new())
    }
}

impl ChangedKeys {
    /// The keys that these changes affect.
    pub(super) fn of(changes: &Changes) -> Self {
        let Changes::These(changes) = changes else { return Self::default() };
        let mut hashes = HashSet::new();
        for change in changes {
            match &change.scope {
                ChangeScope::Key(hash) => drop(hashes.insert(*hash)),
                ChangeScope::All | ChangeScope::Keys => return Self::All,
                ChangeScope::Genes | ChangeScope::Gene(_) | ChangeScope::Domain(_) => {}
            }
        }
        Self::These(hashes)
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::These(hashes) if hashes.is_empty())
    }

    fn add(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::These(hashes), Self::These(others))
                if hashes.len() + others.len() <= MAX_HASHES =>
            {
                hashes.extend(others);
            }
            _ => *self = Self::All,
        }
    }
}

/// A queue of changed keys from the polls to one task that takes them.
#[derive(Debug, Default)]
pub(super) struct KeyChanges {
    /// With the number of the last poll that found some.
    waiting: Mutex<(ChangedKeys, u64)>,
    arrived: Notify,
}

impl KeyChanges {
    /// Adds what the poll with this number found.
    pub(super) fn add(&self, changed: ChangedKeys, poll: u64) {
        if !changed.is_empty() {
            let mut waiting = lock(&self.waiting);
            waiting.0.add(changed);
            waiting.1 = poll;
            self.arrived.notify_one();
        }
    }

    /// Waits for changed keys and takes all that have gathered, with the number of the last poll that
    /// found some.
    pub(super) async fn take(&self) -> (ChangedKeys, u64) {
        loop {
            let (changed, poll) = std::mem::take(&mut *lock(&self.waiting));
            if !changed.is_empty() {
                return (changed, poll);
            }
            self.arrived.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Change;

    fn hash(number: u32) -> KeyHash {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        KeyHash(bytes)
    }

    fn these(numbers: std::ops::Range<u32>) -> ChangedKeys {
        ChangedKeys::These(numbers.map(hash).collect())
    }

    #[tokio::test]
    async fn changed_keys_gather_until_they_are_taken() {
        let changes = KeyChanges::default();
        changes.add(these(0..2), 1);
        changes.add(these(1..3), 2);
        assert_eq!(changes.take().await, (these(0..3), 2));
        let (taken, ()) = tokio::join!(changes.take(), async { changes.add(these(7..8), 3) });
        assert_eq!(taken, (these(7..8), 3));
    }

    #[tokio::test]
    async fn too_many_changed_keys_count_as_all() {
        let changes = KeyChanges::default();
        changes.add(these(0..MAX_HASHES as u32), 1);
        changes.add(these(0..1), 2);
        changes.add(these(1..2), 3);
        assert_eq!(changes.take().await, (ChangedKeys::All, 3));
    }

    #[test]
    fn only_changes_of_keys_and_of_everything_concern_keys() {
        let of = |scopes: &[ChangeScope]| {
            let changes = scopes.iter().map(|scope| Change { scope: scope.clone(), xid: Some(1) });
            ChangedKeys::of(&Changes::These(changes.collect()))
        };
        let domain = ChangeScope::Domain("search".into());
        assert_eq!(of(std::slice::from_ref(&domain)), these(0..0));
        assert_eq!(of(&[domain.clone(), ChangeScope::Key(hash(1))]), these(1..2));
        assert_eq!(of(&[domain, ChangeScope::Genes]), these(0..0));
        assert_eq!(of(&[ChangeScope::All]), ChangedKeys::All);
        assert_eq!(of(&[ChangeScope::Keys]), ChangedKeys::All);
        assert_eq!(ChangedKeys::of(&Changes::NoLog), these(0..0));
    }
}
