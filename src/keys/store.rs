//! Stored API keys: what key management reads and writes, wherever they are.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use super::prefix::KeyPrefix;
use super::secret_token::NoRandomness;
use super::token::ApiKey;
use super::usage::Usage;
use crate::registry::{Timestamp, rfc3339_seconds};

pub use super::sql::insert;

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
    /// Requests in all its life, as far as they have been written down.
    pub request_count: i64,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is.
    Active,
    /// It has ended.
    Expired,
    /// It was revoked.
    Revoked,
}

/// Which of the keys to list.
#[derive(Debug, Clone, Copy)]
pub struct Listing {
    /// So many at most.
    pub limit: u32,
    /// After so many.
    pub offset: u32,
}

impl Listing {
    /// All of them.
    pub const ALL: Self = Self { limit: i32::MAX.unsigned_abs(), offset: 0 };
}

/// Some of the keys, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// They.
    pub keys: Vec<StoredKey>,
    /// How many there are in all.
    pub total: u64,
}

/// What revoking did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevokeOutcome {
    /// The key is revoked, now or since before.
    Key(StoredKey),
    /// No key begins like this.
    None,
    /// Several do, of which these are the first; none was revoked.
    Ambiguous(Vec<StoredKey>),
}

/// What rotating did.
#[derive(Debug, Clone)]
pub enum RotateOutcome {
    /// There is a new key, and the old one ends.
    Key {
        /// The new key in plain text.
        key: ApiKey,
        /// The new key as it is stored.
        new: Box<StoredKey>,
        /// The old key.
        replaced: Box<StoredKey>,
    },
    /// No key begins like this.
    None,
    /// Several do, of which these are the first; none was rotated.
    Ambiguous(Vec<StoredKey>),
    /// It was rotated before, and what took its place is good; nothing was done.
    Already {
        /// The key that took its place.
        successor: Box<StoredKey>,
    },
    /// It has ended or was revoked; nothing was done.
    NotActive(Box<StoredKey>),
}

/// Why keys could not be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The database refused a statement, or went away.
    #[error("the database refused a statement, or went away")]
    Database(#[source] tokio_postgres::Error),
    /// The database can't be reached.
    #[error("the database cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database did not answer in time.
    #[error("the database did not answer in time")]
    Timeout,
    /// Nobody has said as whom keys are written.
    #[error("no role to write keys with is configured")]
    ReadOnly,
    /// The role's rights, or the database's, do not suffice.
    #[error("the role may not do this, or the database may only be read")]
    Forbidden(#[source] tokio_postgres::Error),
    /// The database has not the default schema, or an older one.
    #[error("the database has not the default schema of this release, in which keys are kept")]
    NoSchema(#[source] tokio_postgres::Error),
    /// A stored time is outside what can be shown.
    #[error("a stored time cannot be shown")]
    Time(#[from] jiff::Error),
    /// No key could be made.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Where keys are managed. `owner` is whose keys are meant; without it, everybody's.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// Makes and stores a key. This is the only time that it is seen in plain text.
    async fn create(&self, new: &NewKey) -> Result<(ApiKey, StoredKey), StoreError>;

    /// Keys, newest first.
    async fn list(&self, owner: Option<&str>, listing: Listing) -> Result<Listed, StoreError>;

    /// Revokes the one key that begins with `prefix`. A key that was revoked before stays so.
    async fn revoke(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
    ) -> Result<RevokeOutcome, StoreError>;

    /// Replaces the one active key that begins with `prefix` by a new one of the same owner, name,
    /// scopes, limit and lifetime. The old one ends after `overlap`, or when it would have ended
    /// anyway. A key whose successor is good is not rotated again; once that one has ended or was
    /// revoked, it can be, if it is active itself.
    async fn rotate(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        overlap: Duration,
    ) -> Result<RotateOutcome, StoreError>;

    /// Adds to what is known of keys' use. Keys that are gone are left out.
    async fn add_usage(&self, usage: &[Usage]) -> Result<(), StoreError>;
}
