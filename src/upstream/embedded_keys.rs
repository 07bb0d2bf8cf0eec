//! The keys of a registry in memory, with a log of their changes.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use super::change::{Change, ChangeScope, Changes};
use super::read::{Read, ReadStamp};
use super::snapshot::Snapshot;
use crate::registry::{ApiKeyRecord, KeyHash, Timestamp};
use crate::sync::lock;

/// Number of changes in the log. To a poll that needs older ones, every key has changed.
const MAX_LOG: usize = 1_000;

/// A key of a registry in memory.
#[derive(Debug, Clone)]
pub struct EmbeddedKey {
    /// Its record.
    pub record: ApiKeyRecord,
    /// When it was created.
    pub created_at: Timestamp,
    /// Its last recorded request.
    pub last_used_at: Option<Timestamp>,
    /// Number of recorded requests.
    pub request_count: u64,
    /// Its rotation, if it was rotated.
    pub rotation: Option<Rotation>,
}

/// The rotation of a key.
#[derive(Debug, Clone, Copy)]
pub struct Rotation {
    /// The key that replaces it.
    pub replaced_by: KeyHash,
    /// When it would have expired without the rotation; `None` for never.
    pub first_expires_at: Option<Timestamp>,
}

impl EmbeddedKey {
    /// A key that was never used.
    pub fn new(record: ApiKeyRecord, created_at: Timestamp) -> Self {
        Self { record, created_at, last_used_at: None, request_count: 0, rotation: None }
    }
}

/// The keys, by hash.
pub type KeysByHash = HashMap<KeyHash, EmbeddedKey>;

/// A store of keys. Each change is a transaction, numbered from 1; they never overlap.
#[derive(Debug, Default)]
pub struct EmbeddedKeys(Mutex<KeysState>);

#[derive(Debug, Default)]
struct KeysState {
    keys: KeysByHash,
    /// The latest transactions, oldest first.
    changes: VecDeque<Change>,
    last: u64,
}

impl EmbeddedKeys {
    pub(super) fn new(records: Vec<ApiKeyRecord>, now: Timestamp) -> Self {
        let keys = records.into_iter().map(|key| (key.hash, EmbeddedKey::new(key, now))).collect();
        Self(Mutex::new(KeysState { keys, ..KeysState::default() }))
    }

    /// Calls `read` with the keys.
    pub fn read<T>(&self, read: impl FnOnce(&KeysByHash) -> T) -> T {
        read(&lock(&self.0).keys)
    }

    /// Changes keys. `change` returns the keys whose records changed, which are logged.
    pub fn change<T>(&self, change: impl FnOnce(&mut KeysByHash) -> (Vec<KeyHash>, T)) -> T {
        let mut state = lock(&self.0);
        let (changed, value) = change(&mut state.keys);
        if !changed.is_empty() {
            state.last += 1;
            let xid = state.last;
            let changed = changed
                .into_iter()
                .map(|key| Change { scope: ChangeScope::Key(key), xid: Some(xid) });
            state.changes.extend(changed);
            let excess = state.changes.len().saturating_sub(MAX_LOG);
            state.changes.drain(..excess);
        }
        value
    }

    pub(super) fn records(&self, hashes: &[KeyHash]) -> Read<Vec<Option<ApiKeyRecord>>> {
        let state = lock(&self.0);
        let record = |hash| state.keys.get(hash).map(|key| key.record.clone());
        Read { value: hashes.iter().map(record).collect(), seen: state.seen() }
    }

    pub(super) fn seen(&self) -> ReadStamp {
        lock(&self.0).seen()
    }

    pub(super) fn changes(&self, since: Option<&Snapshot>) -> Read<Changes> {
        let state = lock(&self.0);
        let known = |xid| since.is_some_and(|since| since.sees(xid));
        let oldest = state.changes.front().and_then(|change| change.xid).unwrap_or(state.last + 1);
        let is_complete = oldest == 1 || known(oldest - 1);
        let changes = if is_complete {
            let unknown = state.changes.iter().filter(|change| !change.xid.is_some_and(known));
            unknown.cloned().collect()
        } else {
            vec![Change { scope: ChangeScope::Keys, xid: None }]
        };
        Read { value: Changes::These(changes), seen: state.seen() }
    }
}

impl KeysState {
    fn seen(&self) -> ReadStamp {
        ReadStamp::new(Timestamp::now(), Some(Snapshot::before(self.last + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_lists_the_changes_since_a_snapshot_or_reports_too_many() {
        let keys = EmbeddedKeys::default();
        let hash = |number: u64| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&number.to_le_bytes());
            KeyHash(hash)
        };
        assert_eq!(keys.changes(None).value, Changes::These(vec![]));
        let begin = keys.seen().snapshot.expect("a snapshot");
        let touch = |number| keys.change(|_| (vec![hash(number)], ()));
        touch(1);
        let middle = keys.seen().snapshot.expect("a snapshot");
        touch(2);
        let of = |number: u64| Change { scope: ChangeScope::Key(hash(number)), xid: Some(number) };
        let every_key = Changes::These(vec![Change { scope: ChangeScope::Keys, xid: None }]);
        assert_eq!(keys.changes(Some(&begin)).value, Changes::These(vec![of(1), of(2)]));
        assert_eq!(keys.changes(Some(&middle)).value, Changes::These(vec![of(2)]));
        assert_eq!(keys.changes(None).value, Changes::These(vec![of(1), of(2)]));
        (3..=MAX_LOG as u64 + 2).for_each(touch);
        assert_eq!(keys.changes(Some(&begin)).value, every_key);
        assert_eq!(keys.changes(None).value, every_key);
        let Changes::These(since) = keys.changes(Some(&keys_seen_after(2))).value else {
            panic!("all of them are logged")
        };
        assert_eq!(since.len(), MAX_LOG);
    }

    fn keys_seen_after(xid: u64) -> Snapshot {
        Snapshot::before(xid + 1)
    }
}
