//! API keys in the default schema: what key management reads and writes.

use serde::{Serialize, Serializer};
use thiserror::Error;
use tokio_postgres::{Client, Row};

use super::token::ApiKey;
use crate::registry::{Timestamp, rfc3339_seconds};

/// A prefix must be given to at least this many characters of the key itself.
const MIN_PREFIX_CHARS: usize = 4;

/// A key to be stored.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Whose it is.
    pub owner: String,
    /// What its owner calls it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// Requests a minute, 0 to 2147483647.
    pub rate_limit_per_minute: u32,
    /// When it ends; `None` for never.
    pub expires_at: Option<Timestamp>,
}

/// A stored key as its owner sees it: everything but a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "named as the columns of `registry.api_key`")]
pub struct StoredKey {
    pub prefix: String,
    pub owner: String,
    pub name: String,
    pub scopes: Vec<String>,
    pub rate_limit_per_minute: i32,
    #[serde(serialize_with = "as_time")]
    pub created_at: Timestamp,
    #[serde(serialize_with = "as_time_or_null")]
    pub expires_at: Option<Timestamp>,
    #[serde(serialize_with = "as_time_or_null")]
    pub revoked_at: Option<Timestamp>,
    #[serde(serialize_with = "as_time_or_null")]
    pub last_used_at: Option<Timestamp>,
    /// At the moment of the read.
    pub status: Status,
}

fn as_time<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339_seconds(*at))
}

fn as_time_or_null<S: Serializer>(
    at: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    at.map(rfc3339_seconds).serialize(serializer)
}

/// Whether a key is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is.
    Active,
    /// It has ended.
    Expired,
    /// It was revoked.
    Revoked,
}

/// What revoking did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    /// The key is revoked, now or since before.
    Key(StoredKey),
    /// No key begins like this.
    None,
    /// Several do; none was revoked.
    Ambiguous(Vec<StoredKey>),
}

/// Why a key could not be stored or found.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The database refused a statement, or went away.
    #[error("the database refused a statement, or went away")]
    Database(#[from] tokio_postgres::Error),
    /// A stored time is outside what can be shown.
    #[error("a stored time cannot be shown")]
    Time(#[from] jiff::Error),
    /// The beginning of a key is too short, or no beginning of a key at all.
    #[error(
        "a prefix is gr_ and 4 to 8 letters or digits, with or without the gr_; \
         never give the whole key"
    )]
    NotAPrefix,
}

/// Stores a key.
///
/// # Errors
/// [`StoreError::Database`], also where its prefix is taken.
pub async fn insert(client: &mut Client, key: &ApiKey, new: &NewKey) -> Result<(), StoreError> {
    let transaction = client.transaction().await?;
    let owner = "INSERT INTO registry.owner (handle) VALUES ($1) ON CONFLICT DO NOTHING";
    transaction.execute(owner, &[&new.owner]).await?;
    let insert = "INSERT INTO registry.api_key
        (key_hash, prefix, owner, name, scopes, rate_limit_per_minute, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let limit = i32::try_from(new.rate_limit_per_minute).unwrap_or(i32::MAX);
    let expires_at = new.expires_at.map(std::time::SystemTime::try_from).transpose()?;
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] = [
        &key.hash().0.to_vec(),
        &key.prefix(),
        &new.owner,
        &new.name,
        &new.scopes,
        &limit,
        &expires_at,
    ];
    transaction.execute(insert, &values).await?;
    transaction.commit().await?;
    Ok(())
}

const SELECT: &str = "SELECT k.prefix, k.owner, k.name, k.scopes, k.rate_limit_per_minute,
        k.created_at, k.revoked_at IS NOT NULL AS revoked, k.expires_at <= now() AS expired,
        CASE WHEN isfinite(k.expires_at) THEN k.expires_at END AS expires_at,
        CASE WHEN isfinite(k.revoked_at) THEN k.revoked_at END AS revoked_at,
        CASE WHEN isfinite(u.last_used_at) THEN u.last_used_at END AS last_used_at
    FROM registry.api_key k LEFT JOIN registry.api_key_usage u USING (key_hash)";

/// An owner's keys, newest first; everybody's without an owner.
///
/// # Errors
/// [`StoreError`].
pub async fn list(client: &Client, owner: Option<&str>) -> Result<Vec<StoredKey>, StoreError> {
    let order = "ORDER BY k.created_at DESC, k.prefix";
    let sql = format!("{SELECT} WHERE $1::text IS NULL OR k.owner = $1 {order}");
    client.query(&sql, &[&owner]).await?.iter().map(stored).collect()
}

/// Revokes the one key of `owner` (of anybody, without one) that begins with `prefix`. A key
/// that was revoked before stays so.
///
/// # Errors
/// [`StoreError`].
pub async fn revoke(
    client: &Client,
    owner: Option<&str>,
    prefix: &str,
) -> Result<Revoked, StoreError> {
    let prefix = normal_prefix(prefix)?;
    let sql = format!(
        "{SELECT} WHERE ($1::text IS NULL OR k.owner = $1) AND starts_with(k.prefix, $2)
         ORDER BY k.prefix"
    );
    let rows = client.query(&sql, &[&owner, &prefix]).await?;
    let mut found: Vec<StoredKey> = rows.iter().map(stored).collect::<Result<_, _>>()?;
    if found.len() > 1 {
        return Ok(Revoked::Ambiguous(found));
    }
    let Some(key) = found.pop() else { return Ok(Revoked::None) };
    let update = "UPDATE registry.api_key SET revoked_at = now()
        WHERE prefix = $1 AND revoked_at IS NULL";
    client.execute(update, &[&key.prefix]).await?;
    let rows = client.query(&sql, &[&owner, &key.prefix]).await?;
    rows.first().map_or(Ok(Revoked::None), |row| stored(row).map(Revoked::Key))
}

/// `gr_` and 4 to 8 characters: neither a pattern nor a whole key.
fn normal_prefix(given: &str) -> Result<String, StoreError> {
    let own = given.strip_prefix("gr_").unwrap_or(given);
    let fits = (MIN_PREFIX_CHARS..=8).contains(&own.len())
        && own.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then(|| format!("gr_{own}")).ok_or(StoreError::NotAPrefix)
}

fn stored(row: &Row) -> Result<StoredKey, StoreError> {
    let time = |name| -> Result<Option<Timestamp>, StoreError> {
        let time: Option<std::time::SystemTime> = row.try_get(name)?;
        Ok(time.map(Timestamp::try_from).transpose()?)
    };
    let revoked_at = time("revoked_at")?;
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
        revoked_at,
        last_used_at: time("last_used_at")?,
        status,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_taken_with_or_without_the_brand_and_never_whole_keys() {
        assert_eq!(normal_prefix("gr_aB3d").ok().as_deref(), Some("gr_aB3d"));
        assert_eq!(normal_prefix("aB3dEf7h").ok().as_deref(), Some("gr_aB3dEf7h"));
        for wrong in ["", "gr_", "gr_abc", "abc", "%%%%", "abcd%", "abcdefghi", "gr_12345678_x"] {
            assert!(normal_prefix(wrong).is_err(), "{wrong}");
        }
    }
}
