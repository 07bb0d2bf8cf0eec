//! How the pools make and check connections.

use std::sync::Arc;

use deadpool::managed::{self, Metrics, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;

use super::hosts::{Hosts, NoHost};

/// A pool of connections.
pub(crate) type Pool = managed::Pool<Manager>;

/// A connection of a pool.
pub(crate) type Object = managed::Object<Manager>;

/// Why a pool gave none.
pub(crate) type PoolError = managed::PoolError<NoHost>;

/// Makes connections to one of several hosts.
pub(crate) struct Manager {
    hosts: Arc<Hosts>,
    /// Whether each connection is tried before it is used again.
    verifies: bool,
}

impl Manager {
    pub(super) const fn new(hosts: Arc<Hosts>, verifies: bool) -> Self {
        Self { hosts, verifies }
    }
}

impl managed::Manager for Manager {
    type Type = ClientWrapper;
    type Error = NoHost;

    async fn create(&self) -> Result<ClientWrapper, NoHost> {
        let (client, driver) = self.hosts.connect().await?;
        // The wrapper ends it.
        Ok(ClientWrapper::new(client, driver.detach()))
    }

    async fn recycle(&self, client: &mut ClientWrapper, _: &Metrics) -> RecycleResult<NoHost> {
        let is_good =
            !client.is_closed() && (!self.verifies || client.simple_query("").await.is_ok());
        is_good.then_some(()).ok_or(RecycleError::Message("the connection has ended".into()))
    }
}
