//! The key store in Postgres, with a small connection pool of its own.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::{Client, Transaction};

use super::prefix::KeyPrefix;
use super::rotation;
use super::sql::{self, KeySource};
use super::store::{
    KeyStore, Listed, Listing, NewKey, RevokeOutcome, RotateOutcome, StoreError, StoredKey, Usage,
};
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

    fn writable(&self) -> Result<(), StoreError> {
        match self.source {
            KeySource::Tables => Ok(()),
            KeySource::View => Err(StoreError::ReadOnly),
        }
    }

    /// Runs `work` with a deadline. After it, all connections of the pool are closed as well.
    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(DEADLINE, work).await {
            Ok(done) => done,
            Err(_elapsed) => {
                self.pool.retain(|_, _| false);
                Err(StoreError::Timeout)
            }
        }
    }
}

async fn begin<'a>(client: &'a mut Client, how: &str) -> Result<Transaction<'a>, StoreError> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(how).await?;
    Ok(transaction)
}

#[async_trait]
impl KeyStore for PostgresKeys {
    async fn create(&self, new: &NewKey) -> Result<(ApiKey, StoredKey), StoreError> {
        self.writable()?;
        self.in_time(async {
            let mut client = self.client().await?;
            let transaction = begin(&mut client, WRITE).await?;
            let created = sql::create(&transaction, new).await?;
            transaction.commit().await?;
            Ok(created)
        })
        .await
    }

    async fn list(&self, owner: Option<&str>, listing: Listing) -> Result<Listed, StoreError> {
        self.in_time(async {
            let mut client = self.client().await?;
            let transaction = begin(&mut client, READ).await?;
            let listed = sql::list(&transaction, self.source, owner, listing).await?;
            transaction.commit().await?;
            Ok(listed)
        })
        .await
    }

    async fn revoke(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
    ) -> Result<RevokeOutcome, StoreError> {
        self.writable()?;
        self.in_time(async {
            let mut client = self.client().await?;
            let transaction = begin(&mut client, WRITE).await?;
            let revoked = sql::revoke(&transaction, owner, prefix).await?;
            transaction.commit().await?;
            Ok(revoked)
        })
        .await
    }

    async fn rotate(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        overlap: Duration,
    ) -> Result<RotateOutcome, StoreError> {
        self.writable()?;
        self.in_time(async {
            let mut client = self.client().await?;
            let transaction = begin(&mut client, WRITE).await?;
            let rotated = rotation::rotate(&transaction, owner, prefix, overlap).await?;
            transaction.commit().await?;
            Ok(rotated)
        })
        .await
    }

    async fn add_usage(&self, usage: &[Usage]) -> Result<(), StoreError> {
        self.writable()?;
        self.in_time(async {
            let mut client = self.client().await?;
            let transaction = begin(&mut client, WRITE).await?;
            sql::add_usage(&transaction, usage).await?;
            transaction.commit().await?;
            Ok(())
        })
        .await
    }
}
