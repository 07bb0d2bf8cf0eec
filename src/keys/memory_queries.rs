//! Finds keys in memory, and checks them against the limits of users.

use super::key_limits::{KeyLimits, LimitExceeded};
use super::prefix::KeyPrefix;
use super::store::{KeyRefusal, MAX_REQUEST_COUNT, Status, StoredKey};
use crate::registry::{ApiKeyRecord, Timestamp};
use crate::upstream::{EmbeddedKey, KeysByHash};

fn is_live(key: &EmbeddedKey, now: Timestamp) -> bool {
    stored_key(key, now).status == Status::Active
}

/// Checks whether the owner may make one more live key.
pub(super) fn require_room(
    keys: &KeysByHash,
    owner: &str,
    limits: &KeyLimits,
    now: Timestamp,
) -> Result<(), LimitExceeded> {
    let live = keys.values().filter(|key| key.record.owner == owner && is_live(key, now));
    limits.check_count(live.count() as u64)?;
    require_room_for_new(keys, owner, limits, now)
}

/// Checks whether the owner may make one more key in place of a live one.
pub(super) fn require_room_for_new(
    keys: &KeysByHash,
    owner: &str,
    limits: &KeyLimits,
    now: Timestamp,
) -> Result<(), LimitExceeded> {
    let is_new = |key: &EmbeddedKey| now.duration_since(key.created_at).as_secs() < 60;
    let new = keys.values().filter(|key| key.record.owner == owner && is_new(key));
    limits.check_new(new.count() as u64)
}

/// Checks whether the key may stay live beside its successor.
pub(super) fn require_room_for_overlap(
    keys: &KeysByHash,
    key: &EmbeddedKey,
    limits: &KeyLimits,
    now: Timestamp,
) -> Result<(), LimitExceeded> {
    let ApiKeyRecord { hash, owner, scopes, rate_limit_per_minute, .. } = &key.record;
    require_room(keys, owner, limits, now)?;
    if limits.check(scopes, *rate_limit_per_minute).is_ok() {
        return Ok(());
    }
    let is_predecessor = |other: &&EmbeddedKey| {
        is_live(other, now) && successors(keys, other).any(|next| next.record.hash == *hash)
    };
    let predecessor =
        keys.values().filter(is_predecessor).map(|key| key.record.prefix.clone()).min();
    predecessor.map_or(Ok(()), |predecessor| Err(LimitExceeded::Overlap { predecessor }))
}

/// The newest active key of the same owner among the successors of this key: the key that replaced
/// it by rotation, the one that replaced that key, and so on.
pub(super) fn successor(keys: &KeysByHash, old: &EmbeddedKey, now: Timestamp) -> Option<StoredKey> {
    successors(keys, old)
        .map(|key| stored_key(key, now))
        .filter(|key| key.status == Status::Active && key.owner == old.record.owner)
        .last()
}

/// The key that replaced this key, the one that replaced that key, and so on.
fn successors<'a>(
    keys: &'a KeysByHash,
    key: &EmbeddedKey,
) -> impl Iterator<Item = &'a EmbeddedKey> + use<'a> {
    let next = move |key: &EmbeddedKey| keys.get(&key.rotation?.replaced_by);
    std::iter::successors(next(key), move |key| next(key))
}

/// The one key that begins with `prefix`.
pub(super) fn find_only<'a>(
    keys: &'a mut KeysByHash,
    owner: Option<&str>,
    prefix: &KeyPrefix,
    now: Timestamp,
) -> Result<&'a mut EmbeddedKey, KeyRefusal> {
    let matches =
        |key: &EmbeddedKey| is_owned(key, owner) && key.record.prefix.starts_with(prefix.as_str());
    let mut found: Vec<&mut EmbeddedKey> = keys.values_mut().filter(|key| matches(key)).collect();
    if found.len() > 1 {
        let mut several: Vec<_> = found.iter().map(|key| stored_key(key, now)).collect();
        several.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        return Err(KeyRefusal::Ambiguous(several));
    }
    found.pop().ok_or(KeyRefusal::Unknown)
}

pub(super) fn is_owned(key: &EmbeddedKey, owner: Option<&str>) -> bool {
    owner.is_none_or(|owner| key.record.owner == owner)
}

pub(super) fn stored_key(key: &EmbeddedKey, now: Timestamp) -> StoredKey {
    let EmbeddedKey { record, created_at, last_used_at, request_count, .. } = key;
    let status = if record.revoked_at.is_some() {
        Status::Revoked
    } else if record.expires_at.is_some_and(|end| now >= end) {
        Status::Expired
    } else {
        Status::Active
    };
    StoredKey {
        prefix: record.prefix.clone(),
        owner: record.owner.clone(),
        name: record.name.clone(),
        scopes: record.scopes.clone(),
        rate_limit_per_minute: i32::try_from(record.rate_limit_per_minute).unwrap_or(i32::MAX),
        created_at: *created_at,
        expires_at: record.expires_at,
        revoked_at: record.revoked_at,
        last_used_at: *last_used_at,
        request_count: i64::try_from(*request_count)
            .map_or(MAX_REQUEST_COUNT, |count| count.min(MAX_REQUEST_COUNT)),
        status,
    }
}
