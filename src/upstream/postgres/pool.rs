//! Connections, and one statement on one of them, in bounded time.
//!
//! A statement that was not seen to its end, because time ran out or nobody waits for it any
//! more, is cancelled on the server, and its connection never goes back to the pool: nothing
//! of ours lingers, and nobody gets a connection that is still busy with somebody else's query.
//!
//! Behind a pooler (`prepared_statements = false`) nothing is cancelled; the role's
//! `statement_timeout` ends what was given up. The client library closes the connection of a
//! cancellation without waiting for the other side, upon which PgBouncer 1.18 ends itself
//! (pgbouncer/pgbouncer#801), and with it everybody's way to the database.

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
use crate::upstream::UpstreamError;

use super::connection_budget::{ConnectionBudget, Place};
use super::failure::{Failure, classify, is_full, not_connected, refused};
use super::hosts::Hosts;
use super::manager::{Manager, Object, Pool, PoolError};
use super::queries::Statement;
use super::url::SetupError;

/// A parameter's value.
pub(super) type Value<'a> = &'a (dyn ToSql + Sync);

/// How long the word that a statement was cancelled may take before the connection counts as dead. With it
/// both tries of a read fit into the default deadline.
const SILENCE: Duration = Duration::from_millis(150);

/// How long a connection is kept that nobody needs: a server with fewer of them than the replicas'
/// pools together want can then give it to another replica.
const IDLE: Duration = Duration::from_secs(10);

/// Between two tries to get a connection from a server that has none left, where we have none.
const FULL: Duration = Duration::from_millis(25);

/// Between two searches for such connections.
const IDLE_ROUND: Duration = Duration::from_secs(2);

/// The pool and how long to wait for what.
pub(super) struct Connections {
    pool: Pool,
    /// Connections from before this are thrown away.
    oldest: watch::Sender<std::time::Instant>,
    places: Arc<ConnectionBudget>,
    wait: Duration,
    _trimming: AbortOnDropHandle<()>,
    tls: MakeRustlsConnect,
    query: Duration,
    connect: Duration,
    deadline: Duration,
    prepared: bool,
}

impl Connections {
    /// An empty pool. Connections are made when they are needed. Must be called on a runtime.
    pub(super) fn new(config: &UpstreamConfig, hosts: Arc<Hosts>) -> Result<Self, SetupError> {
        let tls = hosts.tls().clone();
        let pool = Pool::builder(Manager::new(hosts, false))
            .max_size(config.pool_size.max(1))
            // The one used last is taken first, so that those not needed grow old.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(config.wait()))
            .recycle_timeout(Some(config.connect()))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_| SetupError::Pool)?;
        let places = Arc::new(ConnectionBudget::new(config.pool_size.max(1)));
        let trimming = tokio::spawn(trim(pool.clone(), Arc::clone(&places)));
        let trimming = AbortOnDropHandle::new(trimming);
        Ok(Self {
            pool,
            oldest: watch::Sender::new(std::time::Instant::now()),
            places,
            wait: config.wait(),
            _trimming: trimming,
            tls,
            query: config.query(),
            connect: config.connect(),
            deadline: config.deadline(),
            prepared: config.prepared_statements,
        })
    }

    /// None of the connections that there are is used again.
    pub(super) fn renew(&self) {
        self.oldest.send_replace(std::time::Instant::now());
        self.pool.retain(|_, _| false);
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

    /// How often a read whose connection died is tried again. A pooler may have more than one
    /// connection to the server whose end it has not noticed yet.
    fn retries(&self) -> u32 {
        if self.prepared { 1 } else { 3 }
    }

    /// The statement's rows. Tried again if its connection died, after the idle ones have been
    /// thrown away, since what killed one has mostly killed them all.
    pub(super) async fn run(
        &self,
        statement: Statement,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, UpstreamError> {
        let tries = async {
            let mut again = self.retries();
            loop {
                match self.attempt(statement, values).await {
                    Err(Failure::Lost(_) | Failure::Silent) if again > 0 => {
                        again -= 1;
                        self.pool.retain(|_, _| false);
                    }
                    other => return other,
                }
            }
        };
        match timeout(self.deadline, tries).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(Failure::Lost(error))) => Err(UpstreamError::Unreachable(error.into())),
            Ok(Err(Failure::Final(error))) => Err(error),
            Ok(Err(Failure::Silent)) | Err(Elapsed { .. }) => Err(UpstreamError::Timeout),
        }
    }

    async fn attempt(
        &self,
        statement: Statement,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let (client, place) = self.connection().await?;
        let created = Object::metrics(&client).created;
        let tls = self.cancels().then_some(&self.tls);
        let mut lease =
            CheckedOut { client: Some(client), tls, patience: self.connect, _place: place };
        let Some(client) = lease.client.as_ref() else {
            return Err(Failure::Final(UpstreamError::Timeout));
        };
        let ended = self.exchange(client, statement, values).await;
        let is_outdated = created < *self.oldest.borrow();
        match ended {
            QueryOutcome::InTime(Ok(rows)) => {
                if is_outdated {
                    lease.discard();
                } else {
                    lease.release();
                }
                Ok(rows)
            }
            QueryOutcome::InTime(Err(error)) => {
                let failure = classify(error);
                // An error of the statement alone leaves the connection as good as it was.
                if matches!(failure, Failure::Final(_)) {
                    lease.release();
                } else {
                    lease.discard();
                }
                Err(failure)
            }
            QueryOutcome::Cancelled(answer) => {
                // The cancellation may still be on its way, and would hit whoever came next.
                lease.discard();
                answer.map_err(|_| Failure::Final(UpstreamError::Timeout))
            }
            QueryOutcome::Never => Err(Failure::Silent),
        }
    }

    /// A connection, new or idle, and the right to use it. Where the server gives no more, we
    /// wait for one of those we have.
    async fn connection(&self) -> Result<(Object, Place), Failure> {
        let until = Instant::now() + self.wait;
        loop {
            let place = match timeout_at(until, self.places.take()).await {
                Ok(Some(place)) => place,
                Ok(None) | Err(Elapsed { .. }) => {
                    return Err(Failure::Final(UpstreamError::Timeout));
                }
            };
            match self.pool.get().await {
                Ok(client) => return Ok((client, place)),
                Err(PoolError::Backend(error)) if is_full(&error) => {
                    if let Some(_last) = self.places.shrink(place) {
                        sleep(FULL).await;
                    }
                    if Instant::now() >= until {
                        return Err(Failure::Final(refused(error)));
                    }
                }
                Err(error) => return Err(not_connected(error)),
            }
        }
    }

    async fn exchange(
        &self,
        client: &Object,
        statement: Statement,
        values: &[Value<'_>],
    ) -> QueryOutcome {
        let mut query = pin!(self.query(client, statement, values));
        if let Ok(answer) = timeout(self.query, &mut query).await {
            return QueryOutcome::InTime(answer);
        }
        let cancelled = self.cancelled(client.cancel_token(), query);
        timeout(SILENCE, cancelled).await.map_or(QueryOutcome::Never, QueryOutcome::Cancelled)
    }

    fn cancels(&self) -> bool {
        self.prepared
    }

    /// What comes of a statement after it has been cancelled, or the role's timeout has passed:
    /// from a server that is merely slow an error at once, from a dead connection nothing.
    async fn cancelled<T>(&self, cancel: CancelToken, query: impl Future<Output = T>) -> T {
        let ask = async {
            if self.cancels()
                && let Err(error) = cancel.cancel_query(self.tls.clone()).await
            {
                tracing::debug!(%error, "a statement could not be cancelled");
            }
            std::future::pending().await
        };
        tokio::select! {
            answer = query => answer,
            answer = ask => answer,
        }
    }

    async fn query(
        &self,
        client: &Object,
        statement: Statement,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        if self.prepared {
            let prepared = client.prepare_typed_cached(statement.sql, statement.types).await?;
            client.query(&prepared, values).await
        } else {
            let typed: Vec<_> =
                values.iter().copied().zip(statement.types.iter().cloned()).collect();
            client.query_typed(statement.sql, &typed).await
        }
    }
}

/// Ends connections that are not needed, and gives one back that the server had refused, until
/// it is dropped.
async fn trim(pool: Pool, places: Arc<ConnectionBudget>) {
    loop {
        sleep(IDLE_ROUND).await;
        pool.retain(|_, metrics| metrics.last_used() < IDLE);
        places.grow();
    }
}

/// How a statement ended.
enum QueryOutcome {
    /// Within the time for a statement.
    InTime(Result<Vec<Row>, tokio_postgres::Error>),
    /// Too late, when it had been cancelled; with an error for the most part.
    Cancelled(Result<Vec<Row>, tokio_postgres::Error>),
    /// Nothing came, not even then.
    Never,
}

/// A connection while a statement is on it.
struct CheckedOut<'a> {
    client: Option<Object>,
    /// For a cancellation; none where nothing is cancelled.
    tls: Option<&'a MakeRustlsConnect>,
    patience: Duration,
    _place: Place,
}

impl CheckedOut<'_> {
    /// The statement has ended: the connection goes back to the pool.
    fn release(&mut self) {
        self.client = None;
    }

    /// The connection is of no more use.
    fn discard(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

impl Drop for CheckedOut<'_> {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let client = Object::take(client);
        let Some(tls) = self.tls.cloned() else { return };
        let (cancel, patience) = (client.cancel_token(), self.patience);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            // Kept till then: with it, whom to cancel for may be forgotten.
            if !matches!(timeout(patience, cancel.cancel_query(tls)).await, Ok(Ok(()))) {
                tracing::debug!("a query given up could not be cancelled");
            }
            drop(client);
        });
    }
}
