//! Rotates keys. A key has at most one active successor. A second rotation, for example because the
//! response to the first was lost, is refused: it would leave an active key that nobody knows.

use std::time::Duration;

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::key_limits::KeyLimits;
use super::key_rules::EXPIRES_BEFORE;
use super::live_keys::{IS_LIVE, lock_keys, require_room_for_new, require_room_for_overlap};
use super::prefix::KeyPrefix;
use super::sql::{
    KeySource, SqlParam, key_by_prefix, read_stored_key, select_key, select_key_for_update,
};
use super::store::{KeyRefusal, KeyRotation, Status, StoreError, StoredKey};
use super::token::ApiKey;

/// The parameters of a rotation.
pub(super) struct KeyToRotate<'a> {
    /// The limits of users; `None` for operators.
    pub(super) limits: Option<&'a KeyLimits>,
    /// The owner of the key; `None` for any.
    pub(super) owner: Option<&'a str>,
    pub(super) prefix: &'a KeyPrefix,
    /// How long the old key stays valid.
    pub(super) overlap: Duration,
}

impl KeyToRotate<'_> {
    /// Replaces the one active key that begins with the prefix.
    pub(super) async fn run(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<KeyRotation, StoreError> {
        if self.limits.is_some() {
            // First without the lock, so that a call that is refused delays nobody.
            let old = select_key(transaction, self.owner, self.prefix).await?;
            self.check(transaction, &old).await?;
            lock_keys(transaction).await?;
        }
        let old = select_key_for_update(transaction, self.owner, self.prefix).await?;
        self.check(transaction, &old).await?;
        let key = ApiKey::generate()?;
        insert_successor(transaction, &old, &key).await?;
        expire_predecessor(transaction, &old, &key, self.overlap).await?;
        let new = key_by_prefix(transaction, key.prefix()).await?;
        let replaced = key_by_prefix(transaction, &old.prefix).await?;
        Ok(KeyRotation { key, new, replaced })
    }

    /// Checks whether the key may be rotated. A yes holds only while the key and, with limits, all keys
    /// are locked.
    async fn check(
        &self,
        transaction: &Transaction<'_>,
        old: &StoredKey,
    ) -> Result<(), StoreError> {
        // A separate statement, which sees the result of a concurrent rotation that held the lock.
        if let Some(successor) = successor(transaction, old).await? {
            return Err(KeyRefusal::AlreadyRotated(Box::new(successor)).into());
        }
        if old.status != Status::Active {
            return Err(KeyRefusal::NotActive.into());
        }
        match self.limits {
            // The number of live keys stays as it is.
            Some(limits) if self.overlap.is_zero() => {
                require_room_for_new(transaction, &old.owner, limits).await
            }
            Some(limits) => require_room_for_overlap(transaction, old, limits).await,
            None => Ok(()),
        }
    }
}

/// The newest active key of the same owner among the successors of this key: the key that replaced
/// it by rotation, the one that replaced that key, and so on.
async fn successor(
    transaction: &Transaction<'_>,
    old: &StoredKey,
) -> Result<Option<StoredKey>, StoreError> {
    let sql = format!(
        "WITH RECURSIVE successor AS (
            SELECT replaced_by AS key_hash, 1 AS step FROM registry.api_key WHERE prefix = $1
            UNION ALL
            SELECT next.replaced_by, step + 1
            FROM registry.api_key next JOIN successor USING (key_hash)
        )
        {} JOIN successor USING (key_hash)
        WHERE k.owner = $2 AND {IS_LIVE}
        ORDER BY step DESC LIMIT 1",
        KeySource::Tables.select()
    );
    let values: [SqlParam<'_>; 2] = [(&old.prefix, Type::TEXT), (&old.owner, Type::TEXT)];
    transaction.query_typed(&sql, &values).await?.first().map(read_stored_key).transpose()
}

/// Stores the new key with the values of the old one and the lifetime that it had before any
/// rotation.
async fn insert_successor(
    transaction: &Transaction<'_>,
    old: &StoredKey,
    key: &ApiKey,
) -> Result<(), StoreError> {
    let last = EXPIRES_BEFORE.as_second();
    let sql = format!(
        "INSERT INTO registry.api_key
        (key_hash, prefix, owner, name, scopes, rate_limit_per_minute, expires_at)
        SELECT $1, $2, owner, name, scopes, rate_limit_per_minute,
            CASE WHEN isfinite(coalesce(first_expires_at, expires_at))
                THEN least(to_timestamp({last}),
                    now() + (least(coalesce(first_expires_at, expires_at), to_timestamp({last}))
                        - least(greatest(created_at, '0001-01-01'), now()))) END
        FROM registry.api_key WHERE prefix = $3"
    );
    let (hash, prefix) = (key.hash().0, key.prefix());
    let values: [SqlParam<'_>; 3] =
        [(&hash.as_slice(), Type::BYTEA), (&prefix, Type::TEXT), (&old.prefix, Type::TEXT)];
    transaction.execute_typed(&sql, &values).await?;
    Ok(())
}

/// Lets the old key expire after `overlap`, unless it expires earlier anyway.
async fn expire_predecessor(
    transaction: &Transaction<'_>,
    old: &StoredKey,
    key: &ApiKey,
    overlap: Duration,
) -> Result<(), StoreError> {
    let sql = "UPDATE registry.api_key
        SET expires_at = least(expires_at, now() + make_interval(secs => $2)), replaced_by = $3,
            first_expires_at = coalesce(first_expires_at, expires_at, 'infinity')
        WHERE prefix = $1";
    let (overlap, hash) = (overlap.as_secs_f64(), key.hash().0);
    let values: [SqlParam<'_>; 3] =
        [(&old.prefix, Type::TEXT), (&overlap, Type::FLOAT8), (&hash.as_slice(), Type::BYTEA)];
    transaction.execute_typed(sql, &values).await?;
    Ok(())
}
