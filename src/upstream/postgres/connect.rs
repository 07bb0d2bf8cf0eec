//! Connections for command line tools, and for what requests do not ask for.

use std::sync::Arc;
use std::time::Duration;

use deadpool::Runtime;
use thiserror::Error;
use tokio_postgres::Client;

use super::hosts::Hosts;
use super::manager::{Manager, Pool};
use super::standbys;
use super::url::SetupError;
use crate::config::UpstreamConfig;
use crate::upstream::UpstreamError;

/// Whether the configuration says how to connect. Connects to nothing.
///
/// # Errors
///
/// As [`super::Postgres::new`].
pub fn check(config: &UpstreamConfig) -> Result<(), SetupError> {
    standbys::check(config)?;
    Hosts::new(config, config.connect()).map(drop)
}

/// Why a command line tool has no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The configuration does not say how.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The database did not let it in.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

/// One connection for a command line tool, driven by a task of its own.
///
/// # Errors
///
/// As [`super::Postgres::new`], or the connection fails.
pub async fn connect(config: &UpstreamConfig) -> Result<Client, ConnectError> {
    // Statements of the tools run long; nobody has to answer anybody meanwhile.
    let hosts = Hosts::new(config, config.connect().max(Duration::from_secs(5)))?;
    let connected = hosts.connect().await;
    let (client, driver) = connected.map_err(|error| UpstreamError::Unreachable(error.into()))?;
    // It ends with the client.
    drop(driver.detach());
    Ok(client)
}

/// A pool for what is asked rarely and not by requests: each connection is tried before it is
/// used. No connection is made yet.
///
/// # Errors
///
/// As [`super::Postgres::new`].
pub(crate) fn small_pool(config: &UpstreamConfig, connections: usize) -> Result<Pool, SetupError> {
    let patience = config.connect().max(Duration::from_secs(2));
    let hosts = Arc::new(Hosts::new(config, patience)?);
    Pool::builder(Manager::new(hosts, true))
        .max_size(connections)
        .wait_timeout(Some(patience))
        .recycle_timeout(Some(patience))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|_| SetupError::Pool)
}
