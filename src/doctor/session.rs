//! A session with a database, in which each statement only reads and takes a bounded time.

use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use crate::config::UpstreamConfig;
use crate::upstream::postgres::{ConnectError, connect};

/// In a transaction, so that behind a pooler no other session gets these settings. The role's own
/// timeout is too short for a sample of many rows.
const LIMITS: &str = "SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '60s';
    SET LOCAL lock_timeout = '5s'; ";

/// The value of a parameter, and its type.
pub(super) type TypedValue<'a> = (&'a (dyn ToSql + Sync), Type);

/// A session of one role.
pub(super) struct Session(ClientWrapper);

impl Session {
    pub(super) async fn open(config: &UpstreamConfig) -> Result<Self, ConnectError> {
        connect(config).await.map(Self)
    }

    pub(super) async fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.rows_with("", sql, &[]).await
    }

    /// The only row of the result.
    pub(super) async fn row(&mut self, sql: &str) -> Result<Row, Error> {
        let transaction = self.0.transaction().await?;
        transaction.batch_execute(LIMITS).await?;
        transaction.query_typed_one(sql, &[]).await
    }

    /// How long a statement takes. It is stopped after this time.
    pub(super) async fn duration(
        &mut self,
        limit: Duration,
        sql: &str,
        values: &[TypedValue<'_>],
    ) -> Result<Duration, Error> {
        let transaction = self.0.transaction().await?;
        let timeout = limit.as_millis();
        let settings = format!("{LIMITS}SET LOCAL statement_timeout = '{timeout}ms'");
        transaction.batch_execute(&settings).await?;
        let begun = Instant::now();
        let result = transaction.query_typed(sql, values).await;
        let took = begun.elapsed();
        match result {
            Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
                Ok(took.max(limit + Duration::from_millis(1)))
            }
            result => result.map(|_| took),
        }
    }

    /// The rows of a statement with parameters, after these `SET LOCAL` statements.
    pub(super) async fn rows_with(
        &mut self,
        settings: &str,
        sql: &str,
        values: &[TypedValue<'_>],
    ) -> Result<Vec<Row>, Error> {
        let transaction = self.0.transaction().await?;
        transaction.batch_execute(&format!("{LIMITS}{settings}")).await?;
        transaction.query_typed(sql, values).await
    }
}
