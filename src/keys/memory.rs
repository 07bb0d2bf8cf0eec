//! The key store in memory, which the command `demo` uses.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::key_limits::KeyLimits;
use super::memory_queries::{
    find_only, is_owned, require_room, require_room_for_new, require_room_for_overlap, stored_key,
    successor,
};
use super::prefix::KeyPrefix;
use super::store::{
    KeyChange, KeyList, KeyRefusal, KeyRotation, KeyStore, ListRange, NewKey, Status, StoreError,
    StoredKey, Usage,
};
use super::token::ApiKey;
use super::update::KeyToUpdate;
use crate::registry::{ApiKeyRecord, KeyHash, Timestamp};
use crate::upstream::{EmbeddedKey, EmbeddedKeys, KeysByHash, Rotation};

/// Manages the keys of an embedded registry, whose change log then has each change.
pub struct MemoryKeys(Arc<EmbeddedKeys>);

impl MemoryKeys {
    /// Manages `keys`.
    pub fn new(keys: Arc<EmbeddedKeys>) -> Self {
        Self(keys)
    }

    /// Changes keys by [`EmbeddedKeys::change`], unless `change` refuses.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut KeysByHash) -> Result<(Vec<KeyHash>, T), KeyRefusal>,
    ) -> Result<T, StoreError> {
        let changed = self.0.change(|keys| match change(keys) {
            Ok((changed, value)) => (changed, Ok(value)),
            Err(refusal) => (vec![], Err(refusal)),
        });
        Ok(changed?)
    }
}

#[async_trait]
impl KeyStore for MemoryKeys {
    async fn create_within(
        &self,
        limits: Option<&KeyLimits>,
        new: &NewKey,
    ) -> Result<(ApiKey, StoredKey), StoreError> {
        let (key, now) = (ApiKey::generate()?, Timestamp::now());
        let record = ApiKeyRecord {
            hash: key.hash(),
            prefix: key.prefix().to_owned(),
            owner: new.owner.clone(),
            name: new.spec.name.clone(),
            scopes: new.spec.scopes.clone(),
            rate_limit_per_minute: new.spec.rate_limit_per_minute,
            expires_at: new.spec.expires_at,
            revoked_at: None,
        };
        self.change(|keys| {
            if let Some(limits) = limits {
                require_room(keys, &record.owner, limits, now)?;
            }
            let stored = insert(keys, record, now);
            Ok((vec![key.hash()], (key, stored)))
        })
    }

    async fn list(&self, owner: Option<&str>, range: ListRange) -> Result<KeyList, StoreError> {
        let now = Timestamp::now();
        Ok(self.0.read(|keys| {
            let mut found: Vec<&EmbeddedKey> =
                keys.values().filter(|key| is_owned(key, owner)).collect();
            found.sort_by_key(|key| (Reverse(key.created_at), &key.record.prefix));
            let shown = found.iter().skip(range.offset as usize).take(range.limit as usize);
            KeyList {
                keys: shown.map(|key| stored_key(key, now)).collect(),
                total: found.len() as u64,
            }
        }))
    }

    async fn revoke(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
    ) -> Result<StoredKey, StoreError> {
        let now = Timestamp::now();
        self.change(|keys| {
            let found = find_only(keys, owner, prefix, now)?;
            found.record.revoked_at.get_or_insert(now);
            Ok((vec![found.record.hash], stored_key(found, now)))
        })
    }

    async fn update_within(
        &self,
        limits: Option<&KeyLimits>,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        change: &KeyChange,
    ) -> Result<StoredKey, StoreError> {
        let now = Timestamp::now();
        self.change(|keys| {
            let found = find_only(keys, owner, prefix, now)?;
            KeyToUpdate { limits, owner, prefix, change }.check(&stored_key(found, now))?;
            let KeyChange { name, rate_limit_per_minute, expires_at } = change.clone();
            let record = &mut found.record;
            record.name = name.unwrap_or_else(|| std::mem::take(&mut record.name));
            record.rate_limit_per_minute =
                rate_limit_per_minute.unwrap_or(record.rate_limit_per_minute);
            if let Some(expires_at) = expires_at {
                record.expires_at = expires_at;
                // Also the one that a rotated key had before its rotation.
                if let Some(rotation) = &mut found.rotation {
                    rotation.first_expires_at = expires_at;
                }
            }
            Ok((vec![found.record.hash], stored_key(found, now)))
        })
    }

    async fn rotate_within(
        &self,
        limits: Option<&KeyLimits>,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        overlap: Duration,
    ) -> Result<KeyRotation, StoreError> {
        let (key, now) = (ApiKey::generate()?, Timestamp::now());
        self.change(|keys| {
            let old = find_only(keys, owner, prefix, now)?.clone();
            if let Some(successor) = successor(keys, &old, now) {
                return Err(KeyRefusal::AlreadyRotated(Box::new(successor)));
            }
            if stored_key(&old, now).status != Status::Active {
                return Err(KeyRefusal::NotActive);
            }
            match limits {
                // The number of live keys stays as it is.
                Some(limits) if overlap.is_zero() => {
                    require_room_for_new(keys, &old.record.owner, limits, now)?;
                }
                Some(limits) => require_room_for_overlap(keys, &old, limits, now)?,
                None => {}
            }
            let (ended, record) = rotated(old, &key, now, overlap);
            let changed = vec![ended.record.hash, key.hash()];
            let replaced = stored_key(&ended, now);
            keys.insert(ended.record.hash, ended);
            let new = insert(keys, record, now);
            Ok((changed, KeyRotation { key, new, replaced }))
        })
    }

    async fn add_usage(&self, usage: &[Usage]) -> Result<(), StoreError> {
        self.0.change(|keys| {
            for Usage { key, last_used_at, requests } in usage {
                if let Some(known) = keys.get_mut(key) {
                    known.last_used_at = known.last_used_at.max(Some(*last_used_at));
                    known.request_count = known.request_count.saturating_add(*requests);
                }
            }
            (vec![], ())
        });
        Ok(())
    }
}

fn insert(keys: &mut KeysByHash, record: ApiKeyRecord, now: Timestamp) -> StoredKey {
    let hash: KeyHash = record.hash;
    let key = EmbeddedKey::new(record, now);
    let shown = stored_key(&key, now);
    keys.insert(hash, key);
    shown
}

/// The old key with its new expiry, and a record like it for the new key, with the lifetime that
/// the old one had before any rotation.
fn rotated(
    mut old: EmbeddedKey,
    key: &ApiKey,
    now: Timestamp,
    overlap: Duration,
) -> (EmbeddedKey, ApiKeyRecord) {
    let own_end = old.record.expires_at;
    let first_expires_at = old.rotation.map_or(own_end, |before| before.first_expires_at);
    let expires_at = first_expires_at.map(|end| {
        now.saturating_add(end.duration_since(old.created_at)).unwrap_or(Timestamp::MAX)
    });
    let (hash, prefix) = (key.hash(), key.prefix().to_owned());
    let record = ApiKeyRecord { hash, prefix, expires_at, ..old.record.clone() };
    let end = now.saturating_add(overlap).unwrap_or(Timestamp::MAX);
    old.record.expires_at = Some(own_end.map_or(end, |own| own.min(end)));
    old.rotation = Some(Rotation { replaced_by: hash, first_expires_at });
    (old, record)
}
