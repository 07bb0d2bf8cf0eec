//! The SQL statements of key management on the default schema. All are unnamed and typed, so that
//! they work through a pooler in transaction mode.

use std::time::SystemTime;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Transaction};

use super::prefix::KeyPrefix;
use super::store::{KeyRefusal, Listed, Listing, NewKey, Status, StoreError, StoredKey, Usage};
use super::token::ApiKey;
use crate::registry::Timestamp;

/// How many keys are listed if a prefix is ambiguous.
const MAX_CANDIDATES: usize = 100;

/// Later times can't be shown.
pub(super) const LAST_TIME: &str = "'9999-12-30 00:00:00+00'";

/// A statement's parameter with its type.
pub(super) type SqlParam<'a> = (&'a (dyn ToSql + Sync), Type);

/// Where keys are read from.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeySource {
    /// The tables of the default schema.
    Tables,
    /// The view that any registry has, which has no counts of use.
    View,
}

impl KeySource {
    pub(super) fn select(self) -> String {
        let (usage, from) = match self {
            Self::Tables => (
                "CASE WHEN isfinite(u.last_used_at) THEN u.last_used_at END AS last_used_at,
                coalesce(u.request_count, 0) AS request_count",
                "registry.api_key k LEFT JOIN registry.api_key_usage u USING (key_hash)",
            ),
            Self::View => (
                "NULL::timestamptz AS last_used_at, 0::bigint AS request_count",
                "registry_read.api_key k",
            ),
        };
        format!(
            "SELECT k.prefix, coalesce(k.owner, '') AS owner, coalesce(k.name, '') AS name,
                coalesce(k.scopes, '{{}}') AS scopes,
                coalesce(k.rate_limit_per_minute, 30) AS rate_limit_per_minute, k.created_at,
                k.revoked_at IS NOT NULL AS revoked, k.expires_at <= now() AS expired,
                CASE WHEN isfinite(k.expires_at) THEN k.expires_at END AS expires_at,
                CASE WHEN isfinite(k.revoked_at) THEN k.revoked_at END AS revoked_at, {usage}
            FROM {from}"
        )
    }

    const fn table(self) -> &'static str {
        match self {
            Self::Tables => "registry.api_key",
            Self::View => "registry_read.api_key",
        }
    }
}

const FORBIDDEN: [SqlState; 2] =
    [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::READ_ONLY_SQL_TRANSACTION];
const NO_SCHEMA: [SqlState; 3] =
    [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN, SqlState::INVALID_SCHEMA_NAME];
const TIMEOUT: [SqlState; 2] = [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE];

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if FORBIDDEN.contains(code) => Self::Forbidden(error),
            Some(code) if NO_SCHEMA.contains(code) => Self::NoSchema(error),
            Some(code) if TIMEOUT.contains(code) => Self::Timeout,
            _ => Self::Database(error),
        }
    }
}

/// Stores a key in a transaction of its own.
///
/// # Errors
/// [`StoreError`], also if another key has the same prefix.
pub async fn insert_key(client: &mut Client, key: &ApiKey, new: &NewKey) -> Result<(), StoreError> {
    let transaction = client.transaction().await?;
    insert_key_in(&transaction, key, new).await?;
    transaction.commit().await?;
    Ok(())
}

/// Stores a key within a transaction.
///
/// # Errors
/// [`StoreError`], also where its prefix is taken.
pub async fn insert_key_in(
    transaction: &Transaction<'_>,
    key: &ApiKey,
    new: &NewKey,
) -> Result<(), StoreError> {
    let owner = "INSERT INTO registry.owner (handle) VALUES ($1) ON CONFLICT DO NOTHING";
    transaction.execute_typed(owner, &[(&new.owner, Type::TEXT)]).await?;
    let insert = "INSERT INTO registry.api_key
        (key_hash, prefix, owner, name, scopes, rate_limit_per_minute, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let limit = i32::try_from(new.spec.rate_limit_per_minute).unwrap_or(i32::MAX);
    let expires_at = new.spec.expires_at.map(SystemTime::try_from).transpose()?;
    let (hash, prefix) = (key.hash().0, key.prefix());
    let values: [SqlParam<'_>; 7] = [
        (&hash.as_slice(), Type::BYTEA),
        (&prefix, Type::TEXT),
        (&new.owner, Type::TEXT),
        (&new.spec.name, Type::TEXT),
        (&new.spec.scopes, Type::TEXT_ARRAY),
        (&limit, Type::INT4),
        (&expires_at, Type::TIMESTAMPTZ),
    ];
    transaction.execute_typed(insert, &values).await?;
    Ok(())
}

/// Generates and stores a key.
pub(super) async fn create(
    transaction: &Transaction<'_>,
    new: &NewKey,
) -> Result<(ApiKey, StoredKey), StoreError> {
    let key = ApiKey::generate()?;
    insert_key_in(transaction, &key, new).await?;
    let stored = by_prefix(transaction, key.prefix()).await?;
    Ok((key, stored))
}

/// One page of the keys, newest first.
pub(super) async fn list(
    transaction: &Transaction<'_>,
    source: KeySource,
    owner: Option<&str>,
    listing: Listing,
) -> Result<Listed, StoreError> {
    let count = format!(
        "SELECT count(*) AS total FROM {} k WHERE $1::text IS NULL OR k.owner = $1",
        source.table()
    );
    let row = transaction.query_typed_one(&count, &[(&owner, Type::TEXT)]).await?;
    let total: i64 = row.try_get("total")?;
    let sql = format!(
        "{} WHERE $1::text IS NULL OR k.owner = $1
        ORDER BY k.created_at DESC, k.prefix LIMIT $2 OFFSET $3",
        source.select()
    );
    let (limit, offset) = (i64::from(listing.limit), i64::from(listing.offset));
    let values: [SqlParam<'_>; 3] =
        [(&owner, Type::TEXT), (&limit, Type::INT8), (&offset, Type::INT8)];
    let rows = transaction.query_typed(&sql, &values).await?;
    let keys = rows.iter().map(stored).collect::<Result<_, _>>()?;
    Ok(Listed { keys, total: total.unsigned_abs() })
}

/// The one key that begins with `prefix`, locked until the transaction ends.
pub(super) async fn locked(
    transaction: &Transaction<'_>,
    owner: Option<&str>,
    prefix: &KeyPrefix,
) -> Result<StoredKey, StoreError> {
    let sql = format!(
        "{} WHERE ($1::text IS NULL OR k.owner = $1) AND starts_with(k.prefix, $2)
        ORDER BY k.prefix LIMIT {MAX_CANDIDATES} FOR UPDATE OF k",
        KeySource::Tables.select()
    );
    let values: [SqlParam<'_>; 2] = [(&owner, Type::TEXT), (&prefix.as_str(), Type::TEXT)];
    let rows = transaction.query_typed(&sql, &values).await?;
    let found = rows.iter().map(stored).collect::<Result<Vec<_>, _>>()?;
    Ok(KeyRefusal::only(found)?)
}

/// The key with exactly this prefix.
pub(super) async fn by_prefix(
    transaction: &Transaction<'_>,
    prefix: &str,
) -> Result<StoredKey, StoreError> {
    let sql = format!("{} WHERE k.prefix = $1", KeySource::Tables.select());
    stored(&transaction.query_typed_one(&sql, &[(&prefix, Type::TEXT)]).await?)
}

/// Revokes the one key that begins with `prefix`.
pub(super) async fn revoke(
    transaction: &Transaction<'_>,
    owner: Option<&str>,
    prefix: &KeyPrefix,
) -> Result<StoredKey, StoreError> {
    let key = locked(transaction, owner, prefix).await?;
    let update = "UPDATE registry.api_key SET revoked_at = now()
        WHERE prefix = $1 AND revoked_at IS NULL";
    transaction.execute_typed(update, &[(&key.prefix, Type::TEXT)]).await?;
    by_prefix(transaction, &key.prefix).await
}

/// Adds to the counts of keys' use in one statement. It locks rows in order, so that concurrent
/// replicas never deadlock.
pub(super) async fn add_usage(
    transaction: &Transaction<'_>,
    usage: &[Usage],
) -> Result<(), StoreError> {
    let sql = "INSERT INTO registry.api_key_usage AS known (key_hash, last_used_at, request_count)
        SELECT key_hash, used.at, used.requests
        FROM unnest($1::bytea[], $2::timestamptz[], $3::bigint[]) AS used (key_hash, at, requests)
        JOIN registry.api_key USING (key_hash)
        ORDER BY key_hash
        ON CONFLICT (key_hash) DO UPDATE SET
            last_used_at = greatest(known.last_used_at, excluded.last_used_at),
            request_count = known.request_count + excluded.request_count";
    let hashes: Vec<&[u8]> = usage.iter().map(|usage| usage.key.0.as_slice()).collect();
    let times = usage.iter().map(|usage| SystemTime::try_from(usage.last_used_at));
    let times: Vec<SystemTime> = times.collect::<Result<_, _>>()?;
    let requests: Vec<i64> =
        usage.iter().map(|usage| i64::try_from(usage.requests).unwrap_or(i64::MAX)).collect();
    let values: [SqlParam<'_>; 3] = [
        (&hashes, Type::BYTEA_ARRAY),
        (&times, Type::TIMESTAMPTZ_ARRAY),
        (&requests, Type::INT8_ARRAY),
    ];
    transaction.execute_typed(sql, &values).await?;
    Ok(())
}

pub(super) fn stored(row: &Row) -> Result<StoredKey, StoreError> {
    let time = |name| -> Result<Option<Timestamp>, StoreError> {
        let time: Option<SystemTime> = row.try_get(name)?;
        Ok(time.map(Timestamp::try_from).transpose()?)
    };
    let expired: Option<bool> = row.try_get("expired")?;
    let status = match (row.try_get("revoked")?, expired) {
        (true, _) => Status::Revoked,
        (false, Some(true)) => Status::Expired,
        (false, _) => Status::Active,
    };
    Ok(StoredKey {
        prefix: row.try_get("prefix")?,
        owner: row.try_get("owner")?,
        name: row.try_get("name")?,
        scopes: row.try_get("scopes")?,
        rate_limit_per_minute: row.try_get("rate_limit_per_minute")?,
        created_at: time("created_at")?.unwrap_or(Timestamp::UNIX_EPOCH),
        expires_at: time("expires_at")?,
        revoked_at: time("revoked_at")?,
        last_used_at: time("last_used_at")?,
        request_count: row.try_get("request_count")?,
        status,
    })
}
