//! Counts the live keys of a user against the limit: those that are neither revoked nor expired.

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::key_limits::{KeyLimits, LimitExceeded};
use super::store::{KeyRefusal, StoreError, StoredKey};

const IS_LIVE: &str = "revoked_at IS NULL AND (expires_at <= now()) IS NOT TRUE";

/// Makes other transactions that add keys within limits wait until this one ends, so that they cannot
/// exceed a limit together. A lock of the table, since only that needs no further privilege; readers
/// do not wait for it. Must be taken before any row is locked.
pub(super) async fn lock_keys(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let lock = "LOCK TABLE registry.api_key IN SHARE ROW EXCLUSIVE MODE";
    Ok(transaction.batch_execute(lock).await?)
}

/// Checks whether the owner may have one more live key. A yes holds only while the keys are locked.
pub(super) async fn require_room(
    transaction: &Transaction<'_>,
    owner: &str,
    limits: &KeyLimits,
) -> Result<(), StoreError> {
    let sql = format!("SELECT count(*) FROM registry.api_key WHERE owner = $1 AND {IS_LIVE}");
    let row = transaction.query_typed_one(&sql, &[(&owner, Type::TEXT)]).await?;
    let live: i64 = row.try_get(0)?;
    Ok(limits.check_count(live.unsigned_abs()).map_err(KeyRefusal::from)?)
}

/// Checks whether the key may stay live beside its successor. The keys must be locked.
pub(super) async fn require_room_for_overlap(
    transaction: &Transaction<'_>,
    key: &StoredKey,
    limits: &KeyLimits,
) -> Result<(), StoreError> {
    require_room(transaction, &key.owner, limits).await?;
    if limits.check(&key.scopes, key.rate_limit_per_minute.unsigned_abs()).is_ok() {
        return Ok(());
    }
    let sql = format!(
        "SELECT prefix FROM registry.api_key WHERE {IS_LIVE} AND replaced_by =
            (SELECT key_hash FROM registry.api_key WHERE prefix = $1) ORDER BY prefix LIMIT 1"
    );
    match transaction.query_typed(&sql, &[(&key.prefix, Type::TEXT)]).await?.first() {
        None => Ok(()),
        Some(row) => {
            let predecessor = row.try_get(0)?;
            Err(KeyRefusal::from(LimitExceeded::Overlap { predecessor }).into())
        }
    }
}
