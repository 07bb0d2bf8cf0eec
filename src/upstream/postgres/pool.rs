//! Runs statements on pooled connections, each within a deadline.
//!
//! A statement that times out or is abandoned is cancelled on the server, and its connection never
//! returns to the pool, so no caller gets a connection that is still busy.
//!
//! Behind a pooler (`prepared_statements = false`) nothing is cancelled; the role's
//! `statement_timeout` ends abandoned statements. The client library closes the connection of a cancel
//! request without waiting for the response, which crashes PgBouncer 1.18 (pgbouncer/pgbouncer#801).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tokio_util::task::AbortOnDropHandle;

use crate::config::UpstreamConfig;
use crate::ops::PoolState;
use crate::sync::supervise;
use crate::upstream::UpstreamError;

use super::checked_out::{CheckedOut, ConnectionBudget};
use super::connect::{HostManager, Pool, PooledConnection};
use super::failure::{Failure, classify, from_pool, is_full};
use super::hosts::Hosts;
use super::queries::Statement;
use super::url::SetupError;

/// The value of a parameter.
pub(crate) type QueryParam<'a> = &'a (dyn ToSql + Sync);

/// Timeout for the confirmation of a cancellation, after which the connection counts as dead. Short
/// enough that both attempts of a read fit into the default deadline.
const CANCEL_CONFIRMATION: Duration = Duration::from_millis(150);

/// Idle connections are closed after this time, so that a server with fewer connections than the pools
/// of all replicas can give them to another replica.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between attempts to connect to a full server while this pool has no connection.
const FULL_RETRY_INTERVAL: Duration = Duration::from_millis(25);

/// Interval between checks for idle connections.
const TRIM_INTERVAL: Duration = Duration::from_secs(2);

/// A pool that runs statements, with its timeouts.
pub(super) struct QueryPool {
    pool: Pool,
    config: UpstreamConfig,
    /// Older connections are discarded.
    oldest: watch::Sender<std::time::Instant>,
    budget: Arc<ConnectionBudget>,
    _trimming: AbortOnDropHandle<()>,
}

impl QueryPool {
    /// An empty pool. Connections are made when they are needed. Must be called on a runtime.
    pub(super) fn new(config: UpstreamConfig, hosts: Arc<Hosts>) -> Result<Self, SetupError> {
        let [wait, recycle] = [config.wait_ms, config.connect_ms].map(Duration::from_millis);
        let manager = HostManager { hosts, verifies: false };
        let pool = manager.pool(config.pool_size, wait, recycle)?;
        let budget = Arc::new(ConnectionBudget::new(config.pool_size.max(1)));
        let trimmed = (pool.clone(), Arc::clone(&budget));
        let trimming = supervise("postgres_pool_trim", move || trim(trimmed.clone()));
        let oldest = watch::Sender::new(std::time::Instant::now());
        Ok(Self { pool, config, oldest, budget, _trimming: trimming })
    }

    /// Discards all open connections.
    pub(super) fn renew(&self) {
        self.oldest.send_replace(std::time::Instant::now());
        self.pool.retain(|_, _| false);
    }

    pub(super) fn state(&self) -> PoolState {
        let (status, (max, waiting)) = (self.pool.status(), self.budget.state());
        PoolState { max, size: status.size, idle: status.available, waiting }
    }

    /// Runs a statement and returns its rows, at least one. Retries if the connection was lost, after
    /// discarding the idle connections, which are usually lost too.
    pub(super) async fn run(
        &self,
        statement: &Statement,
        values: &[QueryParam<'_>],
    ) -> Result<Vec<Row>, UpstreamError> {
        let attempts = async {
            // A pooler may have several server connections whose loss it has not detected.
            let mut retries = if self.config.prepared_statements { 1 } else { 3 };
            loop {
                match self.attempt(statement, values).await {
                    Err(Failure::Lost(_)) if retries > 0 => {
                        retries -= 1;
                        self.pool.retain(|_, _| false);
                    }
                    Err(Failure::Lost(error) | Failure::Final(error)) => return Err(error),
                    Ok(rows) if rows.is_empty() => {
                        return Err(UpstreamError::Failed("a result without rows".into()));
                    }
                    Ok(rows) => return Ok(rows),
                }
            }
        };
        let deadline = Duration::from_millis(self.config.deadline_ms);
        timeout(deadline, attempts).await.unwrap_or(Err(UpstreamError::Timeout))
    }

    async fn attempt(
        &self,
        statement: &Statement,
        values: &[QueryParam<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let (connection, permit) = self.connection().await.map_err(Failure::Final)?;
        let created = PooledConnection::metrics(&connection).created;
        let tls = &self.pool.manager().hosts.tls;
        let checked_out = CheckedOut {
            connection: Some(connection),
            tls: self.config.prepared_statements.then_some(tls),
            cancel_timeout: Duration::from_millis(self.config.connect_ms),
            _permit: permit,
        };
        let Some(connection) = &checked_out.connection else {
            return Err(Failure::Final(UpstreamError::Timeout));
        };
        let (result, was_cancelled) = self.execute(connection, statement, values).await?;
        // An error of the statement does not affect the connection. A cancel request may still
        // arrive, and would cancel the next statement.
        let is_outdated = created < *self.oldest.borrow();
        let is_lost = matches!(result, Err(Failure::Lost(_)));
        checked_out.end(!was_cancelled && !is_outdated && !is_lost);
        result
    }

    /// Takes a connection, new or idle, with a permit to use it. If the server accepts no more
    /// connections, waits for one of the open ones.
    async fn connection(&self) -> Result<(PooledConnection, OwnedSemaphorePermit), UpstreamError> {
        let until = Instant::now() + Duration::from_millis(self.config.wait_ms);
        loop {
            let Ok(Some(permit)) = timeout_at(until, self.budget.acquire()).await else {
                return Err(UpstreamError::Timeout);
            };
            let error = match self.pool.get().await {
                Ok(connection) => return Ok((connection, permit)),
                Err(error) => error,
            };
            let is_full = is_full(&error);
            if is_full && let Some(_last) = self.budget.shrink(permit) {
                sleep(FULL_RETRY_INTERVAL).await;
            }
            if !is_full || Instant::now() >= until {
                return Err(from_pool(error));
            }
        }
    }

    /// Executes a statement, and cancels it when its timeout is over. Returns its result, and whether
    /// it was cancelled. A server that is only slow reports an error at once; a dead connection
    /// returns nothing, which is the failure.
    async fn execute(
        &self,
        client: &PooledConnection,
        statement: &Statement,
        values: &[QueryParam<'_>],
    ) -> Result<(Result<Vec<Row>, Failure>, bool), Failure> {
        let mut query = pin!(self.query(client, statement, values));
        let query_timeout = Duration::from_millis(self.config.query_ms);
        if let Ok(result) = timeout(query_timeout, &mut query).await {
            return Ok((result.map_err(classify), false));
        }
        let request = async {
            let (cancel, tls) = (client.cancel_token(), &self.pool.manager().hosts.tls);
            if self.config.prepared_statements
                && let Err(error) = cancel.cancel_query(tls.clone()).await
            {
                tracing::debug!(%error, "a statement could not be cancelled");
            }
        };
        let cancelled = async {
            tokio::select! {
                result = &mut query => result,
                () = request => query.await,
            }
        };
        match timeout(CANCEL_CONFIRMATION, cancelled).await {
            Ok(result) => Ok((result.map_err(|_| Failure::Final(UpstreamError::Timeout)), true)),
            Err(_) => Err(Failure::Lost(UpstreamError::Timeout)),
        }
    }

    async fn query(
        &self,
        client: &PooledConnection,
        statement: &Statement,
        values: &[QueryParam<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        if self.config.prepared_statements {
            let prepared = client.prepare_typed_cached(&statement.sql, &statement.types).await?;
            client.query(&prepared, values).await
        } else {
            let typed: Vec<_> =
                values.iter().copied().zip(statement.types.iter().cloned()).collect();
            client.query_typed(&statement.sql, &typed).await
        }
    }
}

/// Closes idle connections, and grows the budget that a full server has shrunk, until it is dropped.
async fn trim((pool, budget): (Pool, Arc<ConnectionBudget>)) {
    loop {
        sleep(TRIM_INTERVAL).await;
        pool.retain(|_, metrics| metrics.last_used() < IDLE_TIMEOUT);
        budget.grow();
    }
}
