//! Runs statements on pooled connections, each within a deadline.
//!
//! A statement that times out or is abandoned is cancelled on the server, and its connection never
//! returns to the pool, so no caller gets a connection that is still busy.
//!
//! Behind a pooler (`prepared_statements = false`) nothing is cancelled; the role's
//! `statement_timeout` ends abandoned statements. The client library closes the connection of a cancel
//! request without waiting for the response, which crashes PgBouncer 1.18 (pgbouncer/pgbouncer#801).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::QueueMode;
use tokio::sync::watch;
use tokio::time::{Instant, error::Elapsed, sleep, timeout, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{CancelToken, Row};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::task::AbortOnDropHandle;

use crate::config::UpstreamConfig;
use crate::ops::PoolState;
use crate::sync::supervise;
use crate::upstream::UpstreamError;

use super::checked_out::CheckedOut;
use super::connection_budget::{ConnectionBudget, ConnectionPermit};
use super::failure::{Failure, classify, from_pool, is_full, no_usable_host};
use super::hosts::Hosts;
use super::manager::{HostManager, Pool, PoolError, PooledConnection};
use super::queries::Statement;
use super::setup_error::SetupError;

/// The value of a parameter.
pub(super) type QueryParam<'a> = &'a (dyn ToSql + Sync);

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
    /// Older connections are discarded.
    oldest: watch::Sender<std::time::Instant>,
    budget: Arc<ConnectionBudget>,
    wait: Duration,
    _trimming: AbortOnDropHandle<()>,
    tls: MakeRustlsConnect,
    query: Duration,
    connect: Duration,
    deadline: Duration,
    prepared: bool,
}

impl QueryPool {
    /// An empty pool. Connections are made when they are needed. Must be called on a runtime.
    pub(super) fn new(config: &UpstreamConfig, hosts: Arc<Hosts>) -> Result<Self, SetupError> {
        let tls = hosts.tls().clone();
        let UpstreamConfig { wait_ms, connect_ms, query_ms, deadline_ms, .. } = *config;
        let [wait, connect, query, deadline] =
            [wait_ms, connect_ms, query_ms, deadline_ms].map(Duration::from_millis);
        let pool = Pool::builder(HostManager::new(hosts, false))
            .max_size(config.pool_size.max(1))
            // The most recently used one is taken first, so that surplus connections become idle.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(wait))
            .recycle_timeout(Some(connect))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_| SetupError::Pool)?;
        let budget = Arc::new(ConnectionBudget::new(config.pool_size.max(1)));
        let trimmed = (pool.clone(), Arc::clone(&budget));
        let trimming = supervise("postgres_pool_trim", move || trim(trimmed.clone()));
        Ok(Self {
            pool,
            oldest: watch::Sender::new(std::time::Instant::now()),
            budget,
            wait,
            _trimming: trimming,
            tls,
            query,
            connect,
            deadline,
            prepared: config.prepared_statements,
        })
    }

    /// Discards all open connections.
    pub(super) fn renew(&self) {
        self.oldest.send_replace(std::time::Instant::now());
        self.pool.retain(|_, _| false);
    }

    /// The timeout of [`Self::run`].
    pub(super) const fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(super) fn state(&self) -> PoolState {
        let status = self.pool.status();
        PoolState {
            max: status.max_size,
            size: status.size,
            idle: status.available,
            waiting: status.waiting,
        }
    }

    /// Number of retries of a statement whose connection was lost. A pooler may have several server
    /// connections whose loss it has not detected.
    fn retries(&self) -> u32 {
        if self.prepared { 1 } else { 3 }
    }

    /// Runs a statement and returns its rows, at least one. Retries if the connection was lost, after discarding the
    /// idle connections, which are usually lost too.
    pub(super) async fn run(
        &self,
        statement: &Statement,
        values: &[QueryParam<'_>],
    ) -> Result<Vec<Row>, UpstreamError> {
        let attempts = async {
            let mut retries = self.retries();
            loop {
                match self.attempt(statement, values).await {
                    Err(Failure::Lost(_) | Failure::Unresponsive) if retries > 0 => {
                        retries -= 1;
                        self.pool.retain(|_, _| false);
                    }
                    other => return other,
                }
            }
        };
        match timeout(self.deadline, attempts).await {
            Ok(Ok(rows)) if rows.is_empty() => {
                Err(UpstreamError::Failed("a result without rows".into()))
            }
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(Failure::Lost(error))) => Err(UpstreamError::Unreachable(error.into())),
            Ok(Err(Failure::Final(error))) => Err(error),
            Ok(Err(Failure::Unresponsive)) | Err(Elapsed { .. }) => Err(UpstreamError::Timeout),
        }
    }

    async fn attempt(
        &self,
        statement: &Statement,
        values: &[QueryParam<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let (connection, permit) = self.connection().await?;
        let created = PooledConnection::metrics(&connection).created;
        let tls = self.cancels().then_some(&self.tls);
        let mut checked_out = CheckedOut {
            connection: Some(connection),
            tls,
            cancel_timeout: self.connect,
            _permit: permit,
        };
        let Some(connection) = &checked_out.connection else {
            return Err(Failure::Final(UpstreamError::Timeout));
        };
        let outcome = self.execute(connection, statement, values).await;
        let is_outdated = created < *self.oldest.borrow();
        match outcome {
            QueryOutcome::InTime(Ok(rows)) => {
                if is_outdated {
                    checked_out.discard();
                } else {
                    checked_out.release();
                }
                Ok(rows)
            }
            QueryOutcome::InTime(Err(error)) => {
                let failure = classify(error);
                // An error of the statement does not affect the connection.
                if matches!(failure, Failure::Final(_)) {
                    checked_out.release();
                } else {
                    checked_out.discard();
                }
                Err(failure)
            }
            QueryOutcome::Cancelled(result) => {
                // The cancel request may still arrive, and would cancel the next statement.
                checked_out.discard();
                result.map_err(|_| Failure::Final(UpstreamError::Timeout))
            }
            QueryOutcome::Unresponsive => Err(Failure::Unresponsive),
        }
    }

    /// Takes a connection, new or idle, with a permit to use it. If the server accepts no more
    /// connections, waits for one of the open ones.
    async fn connection(&self) -> Result<(PooledConnection, ConnectionPermit), Failure> {
        let until = Instant::now() + self.wait;
        loop {
            let permit = match timeout_at(until, self.budget.acquire()).await {
                Ok(Some(permit)) => permit,
                Ok(None) | Err(Elapsed { .. }) => {
                    return Err(Failure::Final(UpstreamError::Timeout));
                }
            };
            match self.pool.get().await {
                Ok(connection) => return Ok((connection, permit)),
                Err(PoolError::Backend(error)) if is_full(&error) => {
                    if let Some(_last) = self.budget.shrink(permit) {
                        sleep(FULL_RETRY_INTERVAL).await;
                    }
                    if Instant::now() >= until {
                        return Err(Failure::Final(no_usable_host(error)));
                    }
                }
                Err(error) => return Err(from_pool(error)),
            }
        }
    }

    async fn execute(
        &self,
        client: &PooledConnection,
        statement: &Statement,
        values: &[QueryParam<'_>],
    ) -> QueryOutcome {
        let mut query = pin!(self.query(client, statement, values));
        if let Ok(result) = timeout(self.query, &mut query).await {
            return QueryOutcome::InTime(result);
        }
        let cancelled = self.cancel(client.cancel_token(), query);
        timeout(CANCEL_CONFIRMATION, cancelled)
            .await
            .map_or(QueryOutcome::Unresponsive, QueryOutcome::Cancelled)
    }

    fn cancels(&self) -> bool {
        self.prepared
    }

    /// Cancels a statement, or waits for the role's timeout, and returns its result. A server that is
    /// only slow reports an error at once; a dead connection returns nothing.
    async fn cancel<T>(&self, cancel: CancelToken, query: impl Future<Output = T>) -> T {
        let request = async {
            if self.cancels()
                && let Err(error) = cancel.cancel_query(self.tls.clone()).await
            {
                tracing::debug!(%error, "a statement could not be cancelled");
            }
            std::future::pending().await
        };
        tokio::select! {
            result = query => result,
            result = request => result,
        }
    }

    async fn query(
        &self,
        client: &PooledConnection,
        statement: &Statement,
        values: &[QueryParam<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        if self.prepared {
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

/// The outcome of a statement.
enum QueryOutcome {
    /// It ended within its timeout.
    InTime(Result<Vec<Row>, tokio_postgres::Error>),
    /// It ended after it was cancelled, usually with an error.
    Cancelled(Result<Vec<Row>, tokio_postgres::Error>),
    /// It did not end even then.
    Unresponsive,
}
