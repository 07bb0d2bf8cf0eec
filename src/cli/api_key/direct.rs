//! Keys straight on the database.

use std::time::Duration;

use async_trait::async_trait;

use super::key_client::{Created, KeyClient, KeyError, Rotated};
use crate::config::UpstreamConfig;
use crate::keys::store::{Listing, RotatedKey, StoredKey};
use crate::keys::{KeyPrefix, KeySpec, KeyStore, NewKey, PostgresKeys};
use crate::upstream::postgres::SetupError;

/// See the module.
pub(super) struct Direct {
    store: PostgresKeys,
    owner: Option<String>,
}

impl Direct {
    /// The owner's keys; everybody's without one.
    pub(super) fn new(config: &UpstreamConfig, owner: Option<String>) -> Result<Self, SetupError> {
        Ok(Self { store: PostgresKeys::new(config)?, owner })
    }
}

#[async_trait]
impl KeyClient for Direct {
    async fn create(&mut self, spec: KeySpec) -> Result<Created, KeyError> {
        let new = NewKey { owner: self.owner.clone().unwrap_or_default(), spec };
        let (key, stored) = self.store.create(&new).await?;
        Ok(Created { key: key.expose().to_owned(), stored })
    }

    async fn list(&mut self) -> Result<Vec<StoredKey>, KeyError> {
        Ok(self.store.list(self.owner.as_deref(), Listing::ALL).await?.keys)
    }

    async fn revoke(&mut self, prefix: &KeyPrefix) -> Result<StoredKey, KeyError> {
        Ok(self.store.revoke(self.owner.as_deref(), prefix).await?)
    }

    async fn rotate(&mut self, prefix: &KeyPrefix, overlap_s: u32) -> Result<Rotated, KeyError> {
        let overlap = Duration::from_secs(overlap_s.into());
        let rotated = self.store.rotate(self.owner.as_deref(), prefix, overlap).await?;
        let RotatedKey { key, new, replaced } = rotated;
        Ok(Rotated { created: Created { key: key.expose().to_owned(), stored: new }, replaced })
    }
}
