//! Management of API keys, through a server or directly in the database.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::key_client_error::KeyClientError;
use crate::cli::command::UsageError;
use crate::keys::store::StoredKey;
use crate::keys::{KeyPrefix, KeySpec};

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

/// Parses a prefix as typed, before anything is sent anywhere.
pub(super) fn parse_prefix(typed: &str) -> Result<KeyPrefix, UsageError> {
    typed
        .parse()
        .map_err(|error| UsageError::new(format!("--prefix: {error}; nothing was changed")))
}

/// Manages the keys of one user or of all users.
#[async_trait]
pub(super) trait KeyClient: Send {
    async fn create(&mut self, spec: KeySpec) -> Result<CreatedKey, KeyClientError>;

    /// All keys, newest first.
    async fn list(&mut self) -> Result<Vec<StoredKey>, KeyClientError>;

    /// Revokes the only key with this prefix. A key that was revoked before stays as it is.
    async fn revoke(&mut self, prefix: &KeyPrefix) -> Result<StoredKey, KeyClientError>;

    /// Replaces the only key with this prefix, which then expires in `overlap_s` seconds.
    async fn rotate(
        &mut self,
        prefix: &KeyPrefix,
        overlap_s: u32,
    ) -> Result<RotatedKey, KeyClientError>;
}
