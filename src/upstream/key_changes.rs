//! The API keys that polls of the change log found to be changed, on their way to the cache of key
//! records.

use std::collections::HashSet;

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::change::{ChangeScope, Changes};
use crate::registry::KeyHash;

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
}

/// A queue of changed keys from the polls to one task that takes them. A poll adds few keys (see
/// [`Changes`]), and marking their records takes no time, so that it does not grow.
#[derive(Debug)]
pub(super) struct KeyChanges {
    sender: UnboundedSender<(ChangedKeys, u64)>,
    receiver: Mutex<UnboundedReceiver<(ChangedKeys, u64)>>,
}

impl Default for KeyChanges {
    fn default() -> Self {
        let (sender, receiver) = unbounded_channel();
        Self { sender, receiver: Mutex::new(receiver) }
    }
}

impl KeyChanges {
    /// Adds what the poll with this number found.
    pub(super) fn add(&self, changed: ChangedKeys, poll: u64) {
        if changed != ChangedKeys::default() {
            // The receiver lives as long as this.
            let _ = self.sender.send((changed, poll));
        }
    }

    /// Waits for the changed keys of the next poll that found some, and its number.
    pub(super) async fn take(&self) -> (ChangedKeys, u64) {
        let next = self.receiver.lock().await.recv().await;
        // The sender lives as long as this.
        next.unwrap_or_default()
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
    async fn changed_keys_are_taken_in_the_order_of_the_polls() {
        let changes = KeyChanges::default();
        changes.add(these(0..0), 1);
        changes.add(these(0..2), 2);
        changes.add(ChangedKeys::All, 3);
        assert_eq!(changes.take().await, (these(0..2), 2));
        assert_eq!(changes.take().await, (ChangedKeys::All, 3));
        let (taken, ()) = tokio::join!(changes.take(), async { changes.add(these(7..8), 4) });
        assert_eq!(taken, (these(7..8), 4));
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
