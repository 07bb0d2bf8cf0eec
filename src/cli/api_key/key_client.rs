//! Manages API keys, through a server's control API or directly in the database.

use std::collections::HashSet;
use std::time::Duration;

use hyper::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::key_errors::{LIST_ALL, LIST_DIRECT, server_error, store_error, useless};
use crate::cli::command::{CommandError, UsageError};
use crate::cli::session::ControlSession;
use crate::keys::store::{KeyRotation, ListRange, StoredKey};
use crate::keys::{
    AuditLog, KeyChange, KeyLimits, KeyPrefix, KeySpec, KeyStore, NewKey, PostgresKeys,
};

/// Keys requested from a server at a time.
const PAGE_SIZE: usize = 200;

/// A server that lists more keys than this is not believed.
const MAX_LISTED: usize = 1_000_000;

/// The keys of one user or of all users, and the place where they are managed.
pub(super) enum KeyClient {
    /// A server. With `all`, everyone's keys, which the server grants to operators.
    Server { session: Box<ControlSession>, all: bool },
    /// A database. Without an owner, everyone's keys.
    Database {
        store: PostgresKeys,
        owner: Option<String>,
        /// They do not apply here, but name the scopes.
        limits: KeyLimits,
        audit_log: AuditLog,
    },
}

/// A new key, with the key itself in plain text.
#[derive(Serialize, Deserialize)]
pub(super) struct CreatedKey {
    pub(super) key: String,
    #[serde(flatten)]
    pub(super) stored: StoredKey,
}

/// A new key that replaces another one.
#[derive(Serialize, Deserialize)]
pub(super) struct RotatedKey {
    #[serde(flatten)]
    pub(super) created: CreatedKey,
    pub(super) replaced: StoredKey,
}

#[derive(Debug, Deserialize)]
struct KeyPage {
    data: Vec<StoredKey>,
    has_more: bool,
}

/// Parses a prefix as typed, before anything is sent anywhere.
pub(super) fn parse_prefix(typed: &str) -> Result<KeyPrefix, UsageError> {
    typed
        .parse()
        .map_err(|error| UsageError::new(format!("--prefix: {error}; nothing was changed")))
}

impl KeyClient {
    /// The options of the command `api-key list` that lists these keys.
    pub(super) const fn list_options(&self) -> &'static str {
        match self {
            Self::Server { all: false, .. } => "",
            Self::Server { all: true, .. } => LIST_ALL,
            Self::Database { .. } => LIST_DIRECT,
        }
    }

    /// Creates a key; with `block`, also one that nobody can use.
    pub(super) async fn create(
        &mut self,
        spec: KeySpec,
        block: bool,
    ) -> Result<CreatedKey, CommandError> {
        match self {
            Self::Server { session, .. } => {
                let mut body = serde_json::to_value(spec)?;
                if block {
                    body["block"] = true.into();
                }
                post(session, "/api-keys", body).await
            }
            Self::Database { store, owner, limits, audit_log } => {
                if !block {
                    limits
                        .check_useful(&spec.scopes, spec.rate_limit_per_minute)
                        .map_err(useless)?;
                }
                let owner = owner.clone().unwrap_or_default();
                let created = store.create(&NewKey { owner, spec }).await;
                let (key, stored) =
                    created.inspect_err(|error| audit_log.failed("create", None, error))?;
                audit_log.created(&stored.prefix, &stored.owner);
                Ok(CreatedKey { key: key.expose().to_owned(), stored })
            }
        }
    }

    /// All keys, newest first.
    pub(super) async fn list(&mut self) -> Result<Vec<StoredKey>, CommandError> {
        match self {
            Self::Server { session, all } => list_pages(session, *all).await,
            Self::Database { store, owner, .. } => {
                Ok(store.list(owner.as_deref(), ListRange::ALL).await?.keys)
            }
        }
    }

    /// Revokes the only key with this prefix. A key that was revoked before stays as it is.
    pub(super) async fn revoke(&mut self, prefix: &KeyPrefix) -> Result<StoredKey, CommandError> {
        match self {
            Self::Server { session, all } => {
                let body = json!({ "prefix": prefix.as_str(), "all": all });
                post(session, "/api-keys/revoke", body).await
            }
            Self::Database { store, owner, audit_log, .. } => {
                let revoked = store.revoke(owner.as_deref(), prefix).await.map_err(|error| {
                    audit_log.failed("revoke", Some(prefix.as_str()), &error);
                    store_error(error)
                })?;
                audit_log.revoked(&revoked.prefix, &revoked.owner);
                Ok(revoked)
            }
        }
    }

    /// Changes the only key with this prefix.
    pub(super) async fn update(
        &mut self,
        prefix: &KeyPrefix,
        change: &KeyChange,
    ) -> Result<StoredKey, CommandError> {
        match self {
            Self::Server { session, all } => {
                let body = json!({
                    "prefix": prefix.as_str(),
                    "all": all,
                    "name": change.name,
                    "rate_limit_per_minute": change.rate_limit_per_minute,
                    "expires_at": change.expires_at.flatten(),
                    "never_expires": change.expires_at == Some(None),
                });
                post(session, "/api-keys/update", body).await
            }
            Self::Database { store, owner, audit_log, .. } => {
                let updated = store.update(owner.as_deref(), prefix, change).await;
                let updated = updated.map_err(|error| {
                    audit_log.failed("update", Some(prefix.as_str()), &error);
                    store_error(error)
                })?;
                audit_log.updated(&updated.prefix, &updated.owner);
                Ok(updated)
            }
        }
    }

    /// Replaces the only key with this prefix, which then expires in `overlap_s` seconds.
    pub(super) async fn rotate(
        &mut self,
        prefix: &KeyPrefix,
        overlap_s: u32,
    ) -> Result<RotatedKey, CommandError> {
        match self {
            Self::Server { session, all } => {
                let body = json!({ "prefix": prefix.as_str(), "overlap_s": overlap_s, "all": all });
                post(session, "/api-keys/rotate", body).await
            }
            Self::Database { store, owner, audit_log, .. } => {
                let overlap = Duration::from_secs(overlap_s.into());
                let rotated = store.rotate(owner.as_deref(), prefix, overlap).await;
                let KeyRotation { key, new, replaced } = rotated.map_err(|error| {
                    audit_log.failed("rotate", Some(prefix.as_str()), &error);
                    store_error(error)
                })?;
                audit_log.rotated(&new.prefix, &new.owner, &replaced.prefix);
                let created = CreatedKey { key: key.expose().to_owned(), stored: new };
                Ok(RotatedKey { created, replaced })
            }
        }
    }
}

async fn post<T: DeserializeOwned>(
    session: &mut ControlSession,
    path: &str,
    body: Value,
) -> Result<T, CommandError> {
    let all = body["all"] == true;
    session.send(Method::POST, path, Some(&body)).await.map_err(|error| server_error(error, all))
}

async fn list_pages(
    session: &mut ControlSession,
    all: bool,
) -> Result<Vec<StoredKey>, CommandError> {
    let mut keys: Vec<StoredKey> = Vec::new();
    // A key created between two pages shifts the others by one: duplicates are skipped.
    let mut seen = HashSet::new();
    let mut offset = 0;
    loop {
        let path = format!("/api-keys?limit={PAGE_SIZE}&offset={offset}&all={all}");
        let page = session.send(Method::GET, &path, None).await;
        let page: KeyPage = page.map_err(|error| server_error(error, all))?;
        offset += page.data.len();
        let before = keys.len();
        keys.extend(page.data.into_iter().filter(|key| seen.insert(key.prefix.clone())));
        if !page.has_more || keys.len() == before {
            return Ok(keys);
        }
        if keys.len() > MAX_LISTED {
            return Err(format!("the server lists more than {MAX_LISTED} keys").into());
        }
    }
}
