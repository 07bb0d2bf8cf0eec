//! The key store in Postgres, with a small connection pool of its own.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;
use tokio_postgres::Transaction;

use super::prefix::KeyPrefix;
use super::rotation::rotate;
use super::sql::{self, KeySource};
use super::store::{KeyRotation, KeyStore, Listed, Listing, NewKey, StoreError, StoredKey, Usage};
use super::token::ApiKey;
use crate::config::UpstreamConfig;
use crate::upstream::postgres::{Pool, PoolError, PooledConnection, SetupError, small_pool};

/// The time for everything that one call does.
const DEADLINE: Duration = Duration::from_secs(5);

/// Begin the transaction of a call, whose statements must not outlive the call.
const WRITE: &str = "SET LOCAL statement_timeout = '4s'";
const READ: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL statement_timeout = '4s'";

/// The size of the connection pool.
const MAX_CONNECTIONS: usize = 4;

/// Manages the keys in a Postgres database.
pub struct PostgresKeys {
    pool: Pool,
    source: KeySource,
}

impl PostgresKeys {
    /// Reads and writes the keys of the default schema. Does not connect yet.
    ///
    /// # Errors
    /// [`SetupError`] if the URL or the certificate authorities can't be read.
    pub fn new(config: &UpstreamConfig) -> Result<Self, SetupError> {
        Ok(Self { pool: small_pool(config, MAX_CONNECTIONS)?, source: KeySource::Tables })
    }

    /// Reads the keys of any registry through its views, with the role that reads them.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn read_only(config: &UpstreamConfig) -> Result<Self, SetupError> {
        Ok(Self { pool: small_pool(config, MAX_CONNECTIONS)?, source: KeySource::View })
    }

    async fn client(&self) -> Result<PooledConnection, StoreError> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Timeout(_) => StoreError::Timeout,
            PoolError::Backend(error) => StoreError::Unreachable(error.into()),
            other => StoreError::Unreachable(other.into()),
        })
    }

    /// Runs `work` in a transaction with a deadline. After it, all connections of the pool are closed
    /// as well.
    async fn in_transaction<T>(
        &self,
        begin: &str,
        work: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let in_time = timeout(DEADLINE, async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            transaction.batch_execute(begin).await?;
            let done = work(&transaction).await?;
            transaction.commit().await?;
            Ok(done)
        });
        in_time.await.unwrap_or_else(|_elapsed| {
            self.pool.retain(|_, _| false);
            Err(StoreError::Timeout)
        })
    }

    async fn write<T>(
        &self,
        work: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.source {
            KeySource::Tables => self.in_transaction(WRITE, work).await,
            KeySource::View => Err(StoreError::ReadOnly),
        }
    }
}

#[async_trait]
impl KeyStore for PostgresKeys {
    async fn create(&self, new: &NewKey) -> Result<(ApiKey, StoredKey), StoreError> {
        self.write(async |transaction| sql::create(transaction, new).await).await
    }

    async fn list(&self, owner: Option<&str>, listing: Listing) -> Result<Listed, StoreError> {
        let list = async |transaction: &Transaction<'_>| {
            sql::list(transaction, self.source, owner, listing).await
        };
        self.in_transaction(READ, list).await
    }

    async fn revoke(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
    ) -> Result<StoredKey, StoreError> {
        self.write(async |transaction| sql::revoke(transaction, owner, prefix).await).await
    }

    async fn rotate(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        overlap: Duration,
    ) -> Result<KeyRotation, StoreError> {
        self.write(async |transaction| rotate(transaction, owner, prefix, overlap).await).await
    }

    async fn add_usage(&self, usage: &[Usage]) -> Result<(), StoreError> {
        self.write(async |transaction| sql::add_usage(transaction, usage).await).await
    }
}
