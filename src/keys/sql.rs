//! The SQL statements that several operations of key management share. All statements are unnamed
//! and typed, so that they work through a connection pooler in transaction mode.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row, Transaction};

use super::prefix::KeyPrefix;
use super::store::{KeyRefusal, MAX_REQUEST_COUNT, NewKey, Status, StoreError, StoredKey};
use super::token::ApiKey;
use crate::net::{PgText, PgTimestamp};
use crate::registry::Timestamp;

/// The maximal number of keys that an error lists if a prefix is ambiguous.
const MAX_CANDIDATES: usize = 100;

/// A statement's parameter with its type.
pub(super) type SqlParam<'a> = (&'a (dyn ToSql + Sync), Type);

/// Where keys are read from.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeySource {
    /// The tables of the default schema.
    Tables,
    /// The view that every registry has. It has no columns about usage.
    View,
}

impl KeySource {
    /// A query of all columns that [`read_stored_key`] reads, without conditions. The casts are for
    /// views of an existing registry. A transaction that has waited for a lock must see that a key has
    /// expired meanwhile.
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
            "SELECT k.prefix::text AS prefix, k.owner::text AS owner, k.name::text AS name,
                k.scopes::text[] AS scopes,
                least(greatest(coalesce(k.rate_limit_per_minute, 30), 0), 2147483647)::integer
                    AS rate_limit_per_minute,
                k.created_at::timestamptz AS created_at, k.revoked_at IS NOT NULL AS revoked,
                k.expires_at::timestamptz <= clock_timestamp() AS expired,
                nullif(nullif(k.expires_at::timestamptz, 'infinity'), '-infinity') AS expires_at,
                nullif(nullif(k.revoked_at::timestamptz, 'infinity'), '-infinity') AS revoked_at,
                {usage}
            FROM {from}"
        )
    }

    /// The condition that a key is the user's whose name is `$1`, in exactly these characters.
    pub(super) const fn is_owned(self) -> &'static str {
        match self {
            Self::Tables => "k.owner = $1",
            Self::View => "k.owner::text COLLATE \"C\" = $1",
        }
    }

    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Tables => "registry.api_key",
            Self::View => "registry_read.api_key",
        }
    }
}

const FORBIDDEN: [SqlState; 2] =
    [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::READ_ONLY_SQL_TRANSACTION];
const SCHEMA_MISMATCH: [SqlState; 4] = [
    SqlState::UNDEFINED_TABLE,
    SqlState::UNDEFINED_COLUMN,
    SqlState::UNDEFINED_FUNCTION,
    SqlState::INVALID_SCHEMA_NAME,
];
const TIMEOUT: [SqlState; 2] = [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE];

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if FORBIDDEN.contains(code) => Self::Forbidden(error),
            Some(code) if SCHEMA_MISMATCH.contains(code) => Self::SchemaMismatch(error),
            Some(code) if TIMEOUT.contains(code) => Self::Timeout,
            Some(&SqlState::UNTRANSLATABLE_CHARACTER) => Self::Untranslatable(error),
            _ => Self::Database(error),
        }
    }
}

/// Stores a key.
///
/// # Errors
/// [`StoreError`], also if another key has the same prefix.
pub async fn insert_key(
    client: &impl GenericClient,
    key: &ApiKey,
    new: &NewKey,
) -> Result<(), StoreError> {
    let owner = "INSERT INTO registry.owner (handle) VALUES ($1) ON CONFLICT DO NOTHING";
    client.execute_typed(owner, &[(&new.owner, Type::TEXT)]).await?;
    let insert = "INSERT INTO registry.api_key
        (key_hash, prefix, owner, name, scopes, rate_limit_per_minute, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let limit = i32::try_from(new.spec.rate_limit_per_minute).unwrap_or(i32::MAX);
    let expires_at = new.spec.expires_at.map(PgTimestamp);
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
    client.execute_typed(insert, &values).await?;
    Ok(())
}

/// The only key with this prefix, of `owner` if given.
///
/// # Errors
/// [`StoreError::Refused`] if no key or several keys have the prefix.
pub(super) async fn select_key(
    transaction: &Transaction<'_>,
    owner: Option<&str>,
    prefix: &KeyPrefix,
) -> Result<StoredKey, StoreError> {
    select_single_key(transaction, owner, prefix, "").await
}

/// As [`select_key`], locked until the transaction ends. The lock does not wait for those who record
/// the key's use: their foreign key holds its row, but allows changes of columns that are no key.
///
/// # Errors
/// As [`select_key`].
pub(super) async fn select_key_for_update(
    transaction: &Transaction<'_>,
    owner: Option<&str>,
    prefix: &KeyPrefix,
) -> Result<StoredKey, StoreError> {
    // Before any row: a call within limits locks the table first (see `lock_keys`), and calls that
    // lock in different orders would wait for each other.
    transaction.batch_execute("LOCK TABLE registry.api_key IN ROW EXCLUSIVE MODE").await?;
    select_single_key(transaction, owner, prefix, "FOR NO KEY UPDATE OF k").await
}

async fn select_single_key(
    transaction: &Transaction<'_>,
    owner: Option<&str>,
    prefix: &KeyPrefix,
    locking: &str,
) -> Result<StoredKey, StoreError> {
    let sql = format!(
        "{} WHERE ($1::text IS NULL OR k.owner = $1) AND starts_with(k.prefix, $2)
        ORDER BY k.prefix LIMIT {MAX_CANDIDATES} {locking}",
        KeySource::Tables.select()
    );
    let prefix = prefix.as_str();
    let rows =
        transaction.query_typed(&sql, &[(&owner, Type::TEXT), (&prefix, Type::TEXT)]).await?;
    let found = rows.iter().map(read_stored_key).collect::<Result<Vec<_>, _>>()?;
    Ok(KeyRefusal::unless_single(found)?)
}

/// The key with exactly this prefix.
pub(super) async fn key_by_prefix(
    transaction: &Transaction<'_>,
    prefix: &str,
) -> Result<StoredKey, StoreError> {
    let sql = format!("{} WHERE k.prefix = $1", KeySource::Tables.select());
    read_stored_key(&transaction.query_typed_one(&sql, &[(&prefix, Type::TEXT)]).await?)
}

/// Reads a row of a query that begins with [`KeySource::select`].
pub(super) fn read_stored_key(row: &Row) -> Result<StoredKey, StoreError> {
    let time = |name| -> Result<Option<Timestamp>, StoreError> {
        let time: Option<PgTimestamp> = row.try_get(name)?;
        Ok(time.map(|PgTimestamp(at)| at))
    };
    let text = |name| -> Result<String, StoreError> {
        let text: Option<PgText> = row.try_get(name)?;
        Ok(text.map(|PgText(text)| text).unwrap_or_default())
    };
    let scopes: Option<Vec<Option<PgText>>> = row.try_get("scopes")?;
    let scopes = scopes.into_iter().flatten().flatten();
    let expired: Option<bool> = row.try_get("expired")?;
    let status = match (row.try_get("revoked")?, expired) {
        (true, _) => Status::Revoked,
        (false, Some(true)) => Status::Expired,
        (false, _) => Status::Active,
    };
    Ok(StoredKey {
        prefix: text("prefix")?,
        owner: text("owner")?,
        name: text("name")?,
        scopes: scopes.map(|PgText(scope)| scope).collect(),
        rate_limit_per_minute: row.try_get("rate_limit_per_minute")?,
        created_at: time("created_at")?.unwrap_or(Timestamp::UNIX_EPOCH),
        expires_at: time("expires_at")?,
        revoked_at: time("revoked_at")?,
        last_used_at: time("last_used_at")?,
        request_count: row.try_get::<_, i64>("request_count")?.clamp(0, MAX_REQUEST_COUNT),
        status,
    })
}
