//! Creates and checks the connections of the pools, of the standbys, and of command-line tools.

use std::sync::Arc;
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, QueueMode, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use thiserror::Error;

use super::hosts::{Hosts, NoUsableHost};
use super::url::SetupError;
use crate::config::UpstreamConfig;
use crate::upstream::UpstreamError;

/// A pool of connections.
pub(crate) type Pool = managed::Pool<HostManager>;

/// A connection of a pool.
pub(crate) type PooledConnection = managed::Object<HostManager>;

/// Why a pool could not provide a connection.
pub(crate) type PoolError = managed::PoolError<NoUsableHost>;

/// Creates connections to one of several hosts.
pub(crate) struct HostManager {
    pub(super) hosts: Arc<Hosts>,
    /// Whether a connection is tested before it is reused.
    pub(super) verifies: bool,
}

impl HostManager {
    /// An empty pool of at most `size` connections, and at least one.
    pub(super) fn pool(
        self,
        size: usize,
        wait: Duration,
        recycle: Duration,
    ) -> Result<Pool, SetupError> {
        Pool::builder(self)
            .max_size(size.max(1))
            // The most recently used one is taken first, so that surplus connections become idle.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(wait))
            .recycle_timeout(Some(recycle))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_| SetupError::Pool)
    }
}

impl managed::Manager for HostManager {
    type Type = ClientWrapper;
    type Error = NoUsableHost;

    async fn create(&self) -> Result<ClientWrapper, NoUsableHost> {
        self.hosts.connect().await
    }

    async fn recycle(
        &self,
        client: &mut ClientWrapper,
        _: &Metrics,
    ) -> RecycleResult<NoUsableHost> {
        let is_usable =
            !client.is_closed() && (!self.verifies || client.simple_query("").await.is_ok());
        is_usable.then_some(()).ok_or(RecycleError::Message("the connection has ended".into()))
    }
}

/// Checks the URLs and TLS settings without connecting.
///
/// # Errors
/// As [`super::Postgres::new`].
pub fn check(config: &UpstreamConfig) -> Result<(), SetupError> {
    standby_configs(config)?;
    Hosts::new(config, Duration::from_millis(config.connect_ms)).map(drop)
}

/// One configuration for each standby, with its URL as `url`. Each URL must name one server, because
/// the state that polls find applies to the reads after them.
pub(super) fn standby_configs(config: &UpstreamConfig) -> Result<Vec<UpstreamConfig>, SetupError> {
    let one = |(index, url): (usize, &secrecy::SecretString)| {
        let one =
            UpstreamConfig { url: Some(url.clone()), read_urls: Vec::new(), ..config.clone() };
        match Hosts::new(&one, Duration::from_millis(one.connect_ms)) {
            Ok(hosts) if hosts.target.hosts.len() == 1 => Ok(one),
            Ok(_) => {
                let why = "it names several hosts; give each standby its own URL".to_owned();
                Err(SetupError::InvalidStandbyUrl(index + 1, why))
            }
            Err(SetupError::InvalidUrl(why)) => Err(SetupError::InvalidStandbyUrl(index + 1, why)),
            Err(error) => Err(error),
        }
    };
    config.read_urls.iter().enumerate().map(one).collect()
}

/// Why a command-line tool could not connect.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The configuration is invalid.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The connection failed.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

/// Opens one connection for a command-line tool.
///
/// # Errors
/// As [`super::Postgres::new`], or the connection fails.
pub async fn connect(config: &UpstreamConfig) -> Result<ClientWrapper, ConnectError> {
    // No request waits for the tools, so they may wait longer.
    let hosts = Hosts::new(config, Duration::from_millis(config.connect_ms.max(5_000)))?;
    let client = hosts.connect().await;
    Ok(client.map_err(|error| UpstreamError::Unreachable(error.into()))?)
}

/// A pool for rare work beside the requests, which tests each connection before use. It does not
/// connect yet.
///
/// # Errors
/// As [`super::Postgres::new`].
pub(crate) fn small_pool(config: &UpstreamConfig, connections: usize) -> Result<Pool, SetupError> {
    let timeout = Duration::from_millis(config.connect_ms.max(2_000));
    let hosts = Arc::new(Hosts::new(config, timeout)?);
    HostManager { hosts, verifies: true }.pool(connections, timeout, timeout)
}
