//! Manages keys directly in the database, for operators.

use std::time::Duration;

use async_trait::async_trait;

use super::key_client::{CreatedKey, KeyClient, RotatedKey};
use super::key_client_error::KeyClientError;
use crate::config::UpstreamConfig;
use crate::keys::store::{KeyRotation, ListRange, StoredKey};
use crate::keys::{KeyPrefix, KeySpec, KeyStore, NewKey, PostgresKeys};
use crate::upstream::postgres::SetupError;

/// The keys in a database, of one owner or of all.
pub(super) struct DirectKeyClient {
    store: PostgresKeys,
    owner: Option<String>,
}

impl DirectKeyClient {
    /// The keys of `owner`, or everyone's if it is `None`.
    pub(super) fn new(config: &UpstreamConfig, owner: Option<String>) -> Result<Self, SetupError> {
        Ok(Self { store: PostgresKeys::new(config)?, owner })
    }
}

#[async_trait]
impl KeyClient for DirectKeyClient {
    async fn create(&mut self, spec: KeySpec) -> Result<CreatedKey, KeyClientError> {
        let new = NewKey { owner: self.owner.clone().unwrap_or_default(), spec };
        let (key, stored) = self.store.create(&new).await?;
        Ok(CreatedKey { key: key.expose().to_owned(), stored })
    }

    async fn list(&mut self) -> Result<Vec<StoredKey>, KeyClientError> {
        Ok(self.store.list(self.owner.as_deref(), ListRange::ALL).await?.keys)
    }

    async fn revoke(&mut self, prefix: &KeyPrefix) -> Result<StoredKey, KeyClientError> {
        Ok(self.store.revoke(self.owner.as_deref(), prefix).await?)
    }

    async fn rotate(
        &mut self,
        prefix: &KeyPrefix,
        overlap_s: u32,
    ) -> Result<RotatedKey, KeyClientError> {
        let overlap = Duration::from_secs(overlap_s.into());
        let rotated = self.store.rotate(self.owner.as_deref(), prefix, overlap).await?;
        let KeyRotation { key, new, replaced } = rotated;
        let created = CreatedKey { key: key.expose().to_owned(), stored: new };
        Ok(RotatedKey { created, replaced })
    }
}
