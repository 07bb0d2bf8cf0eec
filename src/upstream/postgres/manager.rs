//! Creates and checks the connections of the pools.

use std::sync::Arc;

use deadpool::managed::{self, Metrics, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;

use super::hosts::{Hosts, NoUsableHost};

/// A pool of connections.
pub(crate) type Pool = managed::Pool<HostManager>;

/// A connection of a pool.
pub(crate) type PooledConnection = managed::Object<HostManager>;

/// Why a pool could not provide a connection.
pub(crate) type PoolError = managed::PoolError<NoUsableHost>;

/// Creates connections to one of several hosts.
pub(crate) struct HostManager {
    hosts: Arc<Hosts>,
    /// Whether a connection is tested before it is reused.
    verifies: bool,
}

impl HostManager {
    pub(super) const fn new(hosts: Arc<Hosts>, verifies: bool) -> Self {
        Self { hosts, verifies }
    }
}

impl managed::Manager for HostManager {
    type Type = ClientWrapper;
    type Error = NoUsableHost;

    async fn create(&self) -> Result<ClientWrapper, NoUsableHost> {
        let (client, driver) = self.hosts.connect().await?;
        // The wrapper ends the driver.
        Ok(ClientWrapper::new(client, driver.detach()))
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
