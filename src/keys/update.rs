//! Changes the name, the rate limit and the expiry of a key. Only of an active one: a change must not
//! make a key valid again.

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::key_limits::KeyLimits;
use super::prefix::KeyPrefix;
use super::sql::{SqlParam, key_by_prefix, select_key_for_update};
use super::store::{KeyChange, KeyRefusal, Status, StoreError, StoredKey};
use crate::net::PgTimestamp;

/// A new expiry also replaces the one that a rotated key had before its rotation.
const UPDATE: &str = "UPDATE registry.api_key
    SET name = coalesce($2, name), rate_limit_per_minute = coalesce($3, rate_limit_per_minute),
        expires_at = CASE WHEN $4 THEN $5 ELSE expires_at END,
        first_expires_at = CASE WHEN $4 AND first_expires_at IS NOT NULL
            THEN coalesce($5, 'infinity') ELSE first_expires_at END
    WHERE prefix = $1";

/// The parameters of a change.
pub(super) struct KeyToUpdate<'a> {
    /// The limits of users; `None` for operators.
    pub(super) limits: Option<&'a KeyLimits>,
    /// The owner of the key; `None` for any.
    pub(super) owner: Option<&'a str>,
    pub(super) prefix: &'a KeyPrefix,
    pub(super) change: &'a KeyChange,
}

impl KeyToUpdate<'_> {
    /// Changes the one active key that begins with the prefix.
    pub(super) async fn run(&self, transaction: &Transaction<'_>) -> Result<StoredKey, StoreError> {
        let key = select_key_for_update(transaction, self.owner, self.prefix).await?;
        self.check(&key)?;
        let KeyChange { name, rate_limit_per_minute, expires_at } = self.change;
        let rate_limit =
            rate_limit_per_minute.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX));
        let sets_expiry = expires_at.is_some();
        let expires_at = expires_at.flatten().map(PgTimestamp);
        let values: [SqlParam<'_>; 5] = [
            (&key.prefix, Type::TEXT),
            (name, Type::TEXT),
            (&rate_limit, Type::INT4),
            (&sets_expiry, Type::BOOL),
            (&expires_at, Type::TIMESTAMPTZ),
        ];
        transaction.execute_typed(UPDATE, &values).await?;
        key_by_prefix(transaction, &key.prefix).await
    }

    /// Checks whether the key may be changed.
    pub(super) fn check(&self, key: &StoredKey) -> Result<(), KeyRefusal> {
        if key.status != Status::Active {
            return Err(KeyRefusal::NotActive);
        }
        self.limits.map_or(Ok(()), |limits| self.change.check(key, limits))?;
        Ok(())
    }
}
