//! The key store in Postgres, with a small connection pool of its own.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::key_limits::KeyLimits;
use super::live_keys::{lock_keys, require_room};
use super::prefix::KeyPrefix;
use super::rotation::KeyToRotate;
use super::sql::{
    KeySource, SqlParam, insert_key, key_by_prefix, read_stored_key, select_key_for_update,
};
use super::store::{
    KeyChange, KeyList, KeyRotation, KeyStore, ListRange, NewKey, StoreError, StoredKey, Usage,
};
use super::token::ApiKey;
use super::update::KeyToUpdate;
use crate::config::UpstreamConfig;
use crate::net::PgTimestamp;
use crate::upstream::postgres::{Pool, PoolError, PooledConnection, SetupError, small_pool};

/// The maximal time for one call, including the wait for a connection.
const DEADLINE: Duration = Duration::from_secs(5);

/// The first statements of a transaction. Their timeouts end the other statements before [`DEADLINE`],
/// and the transaction of a replica that stalls, before those who wait for its locks give up.
const WRITE: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SET LOCAL statement_timeout = '4s';
    SET LOCAL idle_in_transaction_session_timeout = '2s'";
const READ: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL statement_timeout = '4s';
    SET LOCAL idle_in_transaction_session_timeout = '2s'";

/// The size of the connection pool, and of one that only records the use of keys.
pub(crate) const MAX_STORE_CONNECTIONS: usize = 4;
const MAX_USAGE_CONNECTIONS: usize = 1;

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
        Ok(Self { pool: small_pool(config, MAX_STORE_CONNECTIONS)?, source: KeySource::Tables })
    }

    /// Reads the keys of any registry through its views, with the role that reads them.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn read_only(config: &UpstreamConfig) -> Result<Self, SetupError> {
        Ok(Self { pool: small_pool(config, MAX_STORE_CONNECTIONS)?, source: KeySource::View })
    }

    /// Records the use of keys, with a role that may do nothing else.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_usage(config: &UpstreamConfig) -> Result<Self, SetupError> {
        Ok(Self { pool: small_pool(config, MAX_USAGE_CONNECTIONS)?, source: KeySource::Tables })
    }

    async fn client(&self) -> Result<PooledConnection, StoreError> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Timeout(_) => StoreError::Timeout,
            PoolError::Backend(error) => StoreError::Unreachable(error.into()),
            other => StoreError::Unreachable(other.into()),
        })
    }

    /// Runs `work` in a transaction with a deadline. A call that misses it closes all idle
    /// connections of the pool. Whether a write happened is unknown if its COMMIT fails.
    async fn in_transaction<T>(
        &self,
        begin: &str,
        work: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut is_committing = false;
        let in_time = timeout(DEADLINE, async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            transaction.batch_execute(begin).await?;
            let done = work(&transaction).await?;
            is_committing = begin == WRITE;
            transaction.commit().await?;
            Ok(done)
        })
        .await;
        let outcome = in_time.unwrap_or_else(|_elapsed| {
            self.pool.retain(|_, _| false);
            Err(StoreError::Timeout)
        });
        outcome.map_err(|error| match is_committing {
            true => StoreError::Unconfirmed(Box::new(error)),
            false => error,
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
    async fn create_within(
        &self,
        limits: Option<&KeyLimits>,
        new: &NewKey,
    ) -> Result<(ApiKey, StoredKey), StoreError> {
        let create = async |transaction: &Transaction<'_>| {
            if let Some(limits) = limits {
                // First without the lock, so that a user at the limit delays nobody.
                require_room(transaction, &new.owner, limits).await?;
                lock_keys(transaction).await?;
                require_room(transaction, &new.owner, limits).await?;
            }
            let key = ApiKey::generate()?;
            insert_key(transaction, &key, new).await?;
            let stored = key_by_prefix(transaction, key.prefix()).await?;
            Ok((key, stored))
        };
        self.write(create).await
    }

    async fn list(&self, owner: Option<&str>, range: ListRange) -> Result<KeyList, StoreError> {
        let (table, is_owned) = (self.source.table(), self.source.is_owned());
        let count = format!("SELECT count(*) FROM {table} k WHERE $1::text IS NULL OR {is_owned}");
        let list = format!(
            "{} WHERE $1::text IS NULL OR {is_owned}
            ORDER BY k.created_at DESC, k.prefix::text COLLATE \"C\" LIMIT $2 OFFSET $3",
            self.source.select()
        );
        let (limit, offset) = (i64::from(range.limit), i64::from(range.offset));
        let page: [SqlParam<'_>; 3] =
            [(&owner, Type::TEXT), (&limit, Type::INT8), (&offset, Type::INT8)];
        let listed = self.in_transaction(READ, async |transaction| {
            let total: i64 = transaction.query_typed_one(&count, &page[..1]).await?.try_get(0)?;
            let rows = transaction.query_typed(&list, &page).await?;
            let keys = rows.iter().map(read_stored_key).collect::<Result<_, _>>()?;
            Ok(KeyList { keys, total: total.unsigned_abs() })
        });
        match listed.await {
            // No key is of a user whose name the database cannot hold.
            Err(StoreError::Untranslatable(_)) if owner.is_some_and(|name| !name.is_ascii()) => {
                Ok(KeyList { keys: Vec::new(), total: 0 })
            }
            listed => listed,
        }
    }

    async fn revoke(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
    ) -> Result<StoredKey, StoreError> {
        let sql = "UPDATE registry.api_key SET revoked_at = now()
            WHERE prefix = $1 AND revoked_at IS NULL";
        self.write(async |transaction| {
            let key = select_key_for_update(transaction, owner, prefix).await?;
            transaction.execute_typed(sql, &[(&key.prefix, Type::TEXT)]).await?;
            key_by_prefix(transaction, &key.prefix).await
        })
        .await
    }

    async fn update_within(
        &self,
        limits: Option<&KeyLimits>,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        change: &KeyChange,
    ) -> Result<StoredKey, StoreError> {
        let update = KeyToUpdate { limits, owner, prefix, change };
        self.write(async |transaction| update.run(transaction).await).await
    }

    async fn rotate_within(
        &self,
        limits: Option<&KeyLimits>,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        overlap: Duration,
    ) -> Result<KeyRotation, StoreError> {
        let rotation = KeyToRotate { limits, owner, prefix, overlap };
        self.write(async |transaction| rotation.run(transaction).await).await
    }

    /// Writes by a function of the schema, so that the role needs no other privilege.
    async fn add_usage(&self, usage: &[Usage]) -> Result<(), StoreError> {
        let sql = "SELECT registry.record_key_usage($1, $2, $3)";
        let hashes: Vec<&[u8]> = usage.iter().map(|usage| usage.key.0.as_slice()).collect();
        let times: Vec<_> = usage.iter().map(|usage| PgTimestamp(usage.last_used_at)).collect();
        let requests: Vec<i64> =
            usage.iter().map(|usage| i64::try_from(usage.requests).unwrap_or(i64::MAX)).collect();
        let values: [SqlParam<'_>; 3] = [
            (&hashes, Type::BYTEA_ARRAY),
            (&times, Type::TIMESTAMPTZ_ARRAY),
            (&requests, Type::INT8_ARRAY),
        ];
        self.write(async |transaction| {
            transaction.query_typed(sql, &values).await?;
            Ok(())
        })
        .await
    }
}
