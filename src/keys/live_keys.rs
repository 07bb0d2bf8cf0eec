//! Counts the keys of a user against the limit: the live ones, which are neither revoked nor expired,
//! and the new ones, which were made within the last minute.

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::key_limits::{KeyLimits, LimitExceeded};
use super::store::{KeyRefusal, StoreError, StoredKey};

/// The condition for live keys.
pub(super) const IS_LIVE: &str = "revoked_at IS NULL AND (expires_at <= now()) IS NOT TRUE";
const IS_NEW: &str = "created_at > now() - interval '60 s'";

/// Makes other transactions that add keys within limits wait until this one ends, so that they cannot
/// exceed a limit together. A lock of the table, since only that needs no further privilege; readers
/// do not wait for it. Must be taken before any row is locked.
pub(super) async fn lock_keys(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let lock = "LOCK TABLE registry.api_key IN SHARE ROW EXCLUSIVE MODE";
    Ok(transaction.batch_execute(lock).await?)
}

/// Checks whether the owner may make one more live key. A yes holds only while the keys are locked.
pub(super) async fn require_room(
    transaction: &Transaction<'_>,
    owner: &str,
    limits: &KeyLimits,
) -> Result<(), StoreError> {
    let live = count(transaction, owner, IS_LIVE).await?;
    limits.check_count(live).map_err(KeyRefusal::from)?;
    require_room_for_new(transaction, owner, limits).await
}

/// Checks whether the owner may make one more key in place of a live one. A yes holds only while the
/// keys are locked.
pub(super) async fn require_room_for_new(
    transaction: &Transaction<'_>,
    owner: &str,
    limits: &KeyLimits,
) -> Result<(), StoreError> {
    let made = count(transaction, owner, IS_NEW).await?;
    Ok(limits.check_new(made).map_err(KeyRefusal::from)?)
}

async fn count(
    transaction: &Transaction<'_>,
    owner: &str,
    condition: &str,
) -> Result<u64, StoreError> {
    let sql = format!("SELECT count(*) FROM registry.api_key WHERE owner = $1 AND {condition}");
    let row = transaction.query_typed_one(&sql, &[(&owner, Type::TEXT)]).await?;
    let count: i64 = row.try_get(0)?;
    Ok(count.unsigned_abs())
}

/// Checks whether the key may stay live beside its successor. A yes holds only while the keys are
/// locked.
pub(super) async fn require_room_for_overlap(
    transaction: &Transaction<'_>,
    key: &StoredKey,
    limits: &KeyLimits,
) -> Result<(), StoreError> {
    require_room(transaction, &key.owner, limits).await?;
    if limits.check(&key.scopes, key.rate_limit_per_minute.unsigned_abs()).is_ok() {
        return Ok(());
    }
    match live_predecessor(transaction, key).await? {
        None => Ok(()),
        Some(predecessor) => Err(KeyRefusal::from(LimitExceeded::Overlap { predecessor }).into()),
    }
}

/// The prefix of a live key among those that this key replaced, that these replaced, and so on.
async fn live_predecessor(
    transaction: &Transaction<'_>,
    key: &StoredKey,
) -> Result<Option<String>, StoreError> {
    let sql = format!(
        "WITH RECURSIVE predecessor AS (
            SELECT key_hash, prefix, revoked_at, expires_at FROM registry.api_key
            WHERE replaced_by = (SELECT key_hash FROM registry.api_key WHERE prefix = $1)
            UNION
            SELECT k.key_hash, k.prefix, k.revoked_at, k.expires_at
            FROM registry.api_key k JOIN predecessor p ON k.replaced_by = p.key_hash
        )
        SELECT prefix FROM predecessor WHERE {IS_LIVE} ORDER BY prefix LIMIT 1"
    );
    let rows = transaction.query_typed(&sql, &[(&key.prefix, Type::TEXT)]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}
