//! The interface of key stores: the values that key management reads and writes.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use super::key_limits::{KeyLimits, LimitExceeded};
use super::prefix::KeyPrefix;
use super::secret_token::NoRandomness;
use super::token::ApiKey;
use crate::registry::{KeyHash, MAX_SAFE_INTEGER, Timestamp, rfc3339_seconds};

/// A key to be created: everything but its owner.
#[derive(Debug, Clone, Serialize)]
pub struct KeySpec {
    /// The name that the owner gives it.
    pub name: String,
    /// The operations that it allows.
    pub scopes: Vec<String>,
    /// Rate limit in requests a minute, 0 to 2147483647.
    pub rate_limit_per_minute: u32,
    /// When it expires; `None` for never.
    pub expires_at: Option<Timestamp>,
}

/// A key to be stored.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The user who will own it.
    pub owner: String,
    /// Its properties.
    pub spec: KeySpec,
}

/// What to change of a key. What is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChange {
    /// Its name.
    pub name: Option<String>,
    /// Rate limit in requests a minute, 1 to 2147483647.
    pub rate_limit_per_minute: Option<u32>,
    /// When it expires; `Some(None)` for never.
    pub expires_at: Option<Option<Timestamp>>,
}

impl KeyChange {
    /// Checks whether a user may change the key so. A key above the limits keeps what it has, but
    /// does not live longer.
    pub(super) fn check(&self, key: &StoredKey, limits: &KeyLimits) -> Result<(), LimitExceeded> {
        let prolongs = match (self.expires_at, key.expires_at) {
            (Some(new), Some(old)) => new.is_none_or(|new| new > old),
            _ => false,
        };
        let scopes = if prolongs { key.scopes.as_slice() } else { &[] };
        match self.rate_limit_per_minute {
            Some(rate_limit) => limits.check(scopes, rate_limit),
            None if prolongs => limits.check(scopes, key.rate_limit_per_minute.unsigned_abs()),
            None => Ok(()),
        }
    }
}

/// The largest count that is shown, 2^53 - 1.
pub(super) const MAX_REQUEST_COUNT: i64 = MAX_SAFE_INTEGER as i64;

/// A stored key as its owner sees it: everything but a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// All its requests, as far as their counts have been written: 0 to 2^53 - 1.
    pub request_count: i64,
    /// The status at the time of the read.
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

/// Whether a key is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is valid.
    Active,
    /// It has expired.
    Expired,
    /// It was revoked.
    Revoked,
}

/// The part of the keys to list.
#[derive(Debug, Clone, Copy)]
pub struct ListRange {
    /// The maximal number of keys.
    pub limit: u32,
    /// How many keys to skip.
    pub offset: u32,
}

impl ListRange {
    /// All keys.
    pub const ALL: Self = Self { limit: i32::MAX.unsigned_abs(), offset: 0 };
}

/// One page of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyList {
    /// The keys, newest first.
    pub keys: Vec<StoredKey>,
    /// How many keys there are on all pages.
    pub total: u64,
}

/// A key that has just replaced another one.
#[derive(Debug, Clone)]
pub struct KeyRotation {
    /// The new key in plain text.
    pub key: ApiKey,
    /// The new key as it is stored.
    pub new: StoredKey,
    /// The old key with its new expiry.
    pub replaced: StoredKey,
}

/// Why a key was not created or changed. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyRefusal {
    /// No key has this prefix.
    #[error("no key has this prefix")]
    Unknown,
    /// Several keys have this prefix. These are the first of them.
    #[error("several keys have this prefix")]
    Ambiguous(Vec<StoredKey>),
    /// It was rotated before, and this successor is active.
    #[error("the key was rotated before, and its successor is active")]
    AlreadyRotated(Box<StoredKey>),
    /// It has expired or is revoked.
    #[error("the key has expired or was revoked")]
    NotActive,
    /// Operators do not allow it.
    #[error(transparent)]
    LimitExceeded(#[from] LimitExceeded),
}

impl KeyRefusal {
    /// The only one of the keys with a prefix; refuses none and several.
    pub(crate) fn unless_single(mut found: Vec<StoredKey>) -> Result<StoredKey, Self> {
        match found.len() {
            0 | 1 => found.pop().ok_or(Self::Unknown),
            _ => Err(Self::Ambiguous(found)),
        }
    }
}

/// The use of one key since the last batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The key.
    pub key: KeyHash,
    /// The time of its last request.
    pub last_used_at: Timestamp,
    /// The number of its requests.
    pub requests: u64,
}

/// Why keys can't be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The database refused a statement, or the connection broke.
    #[error("the database refused a statement, or the connection to it broke")]
    Database(#[source] tokio_postgres::Error),
    /// There is no connection to the database.
    #[error("the database cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database did not reply in time.
    #[error("the database did not reply in time")]
    Timeout,
    /// The database did not confirm a change at its end, so it may have happened.
    #[error(
        "the database did not confirm the change, which may have happened; list the keys before it is \
         repeated"
    )]
    Unconfirmed(#[source] Box<Self>),
    /// No role that writes keys is configured.
    #[error("no role that writes keys is configured")]
    ReadOnly,
    /// The role lacks a privilege, or the database is read-only.
    #[error("the role lacks a privilege, or the database is read-only")]
    Forbidden(#[source] tokio_postgres::Error),
    /// The database lacks the default schema, or has an older version of it.
    #[error(
        "the database lacks the default schema of this release, which has the keys; run \
         gene-registry migrate"
    )]
    SchemaMismatch(#[source] tokio_postgres::Error),
    /// A name has characters that the database's encoding lacks.
    #[error("the encoding of the registry's database cannot hold a character of a name")]
    Untranslatable(#[source] tokio_postgres::Error),
    /// The key can't be created or changed.
    #[error(transparent)]
    Refused(#[from] KeyRefusal),
    /// No key could be generated.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Manages keys. With an `owner`, a call concerns only the keys of that owner.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// Generates and stores a key. With limits, the owner does not get more live keys, or make more
    /// keys within a minute, than they allow, not even by concurrent calls. The plain text is not available later.
    async fn create_within(
        &self,
        limits: Option<&KeyLimits>,
        new: &NewKey,
    ) -> Result<(ApiKey, StoredKey), StoreError>;

    /// As [`Self::create_within`] without limits.
    async fn create(&self, new: &NewKey) -> Result<(ApiKey, StoredKey), StoreError> {
        self.create_within(None, new).await
    }

    /// One page of the keys, newest first.
    async fn list(&self, owner: Option<&str>, range: ListRange) -> Result<KeyList, StoreError>;

    /// Revokes the one key with this prefix. A key that is already revoked keeps its time.
    async fn revoke(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
    ) -> Result<StoredKey, StoreError>;

    /// Changes the one active key with this prefix. With limits, the change must not exceed them.
    async fn update_within(
        &self,
        limits: Option<&KeyLimits>,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        change: &KeyChange,
    ) -> Result<StoredKey, StoreError>;

    /// As [`Self::update_within`] without limits.
    async fn update(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        change: &KeyChange,
    ) -> Result<StoredKey, StoreError> {
        self.update_within(None, owner, prefix, change).await
    }

    /// Replaces the one active key with this prefix by a new one with the same owner, name, scopes,
    /// limit and lifetime. The old one expires after `overlap`, unless it expires earlier anyway. A
    /// key whose successor is active is not rotated again. With limits, an overlap must not exceed
    /// the number of live keys, and no rotation that of keys made within a minute.
    async fn rotate_within(
        &self,
        limits: Option<&KeyLimits>,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        overlap: Duration,
    ) -> Result<KeyRotation, StoreError>;

    /// As [`Self::rotate_within`] without limits.
    async fn rotate(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        overlap: Duration,
    ) -> Result<KeyRotation, StoreError> {
        self.rotate_within(None, owner, prefix, overlap).await
    }

    /// Adds to the counts of keys' use. Ignores keys that do not exist any more.
    async fn add_usage(&self, usage: &[Usage]) -> Result<(), StoreError>;
}
