//! Connections for command-line tools, and small pools for work beside the requests.

use std::sync::Arc;
use std::time::Duration;

use deadpool::Runtime;
use thiserror::Error;
use tokio_postgres::Client;

use super::hosts::Hosts;
use super::manager::{HostManager, Pool};
use super::setup_error::SetupError;
use super::standby_urls;
use crate::config::UpstreamConfig;
use crate::upstream::UpstreamError;

/// Checks the URLs and TLS settings without connecting.
///
/// # Errors
///
/// As [`super::Postgres::new`].
pub fn check(config: &UpstreamConfig) -> Result<(), SetupError> {
    standby_urls::configs(config)?;
    Hosts::new(config, Duration::from_millis(config.connect_ms)).map(drop)
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

/// Opens one connection for a command-line tool, driven by its own task.
///
/// # Errors
///
/// As [`super::Postgres::new`], or the connection fails.
pub async fn connect(config: &UpstreamConfig) -> Result<Client, ConnectError> {
    // No request waits for the tools, so they may wait longer.
    let hosts = Hosts::new(config, Duration::from_millis(config.connect_ms.max(5_000)))?;
    let connected = hosts.connect().await;
    let (client, driver) = connected.map_err(|error| UpstreamError::Unreachable(error.into()))?;
    // The driver ends with the client.
    drop(driver.detach());
    Ok(client)
}

/// A pool for rare work beside the requests, which tests each connection before use. It does not
/// connect yet.
///
/// # Errors
///
/// As [`super::Postgres::new`].
pub(crate) fn small_pool(config: &UpstreamConfig, connections: usize) -> Result<Pool, SetupError> {
    let timeout = Duration::from_millis(config.connect_ms.max(2_000));
    let hosts = Arc::new(Hosts::new(config, timeout)?);
    Pool::builder(HostManager::new(hosts, true))
        .max_size(connections)
        .wait_timeout(Some(timeout))
        .recycle_timeout(Some(timeout))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|_| SetupError::Pool)
}
