//! The listeners: their addresses, what their connections are held to, and whose they are.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::StartError;
use crate::config::{Config, Network};
use crate::server::{ConnectionLimits, Handler, Listener, Peers, ServerTls, Serving, serve};

/// Connections to the operations listener, or to the control listener, at once.
const FEW_CONNECTIONS: usize = 64;

/// Requests for health or metrics are answered at once, also at the end.
const OPS_GRACE: Duration = Duration::from_secs(1);

/// A socket that listens, and the configuration's key for its address.
pub(super) struct Bound {
    key: &'static str,
    address: SocketAddr,
    socket: TcpListener,
}

/// Listens on `address`, which the configuration has under `key`.
///
/// # Errors
/// [`StartError::Bind`].
pub(super) async fn bind(key: &'static str, address: SocketAddr) -> Result<Bound, StartError> {
    match TcpListener::bind(address).await {
        Ok(socket) => Ok(Bound { key, address, socket }),
        Err(source) => Err(StartError::Bind { key, address, source }),
    }
}

/// Serves what comes to a socket.
///
/// # Errors
/// [`StartError::Bind`], where the system does not tell the socket's address.
pub(super) fn listen<H: Handler>(
    bound: Bound,
    tls: Option<ServerTls>,
    peers: Arc<Peers>,
    handler: H,
    limits: ConnectionLimits,
) -> Result<Serving, StartError> {
    let Bound { key, address, socket } = bound;
    let serving = serve(Listener::new(socket, tls, peers), Arc::new(handler), limits);
    serving.map_err(|source| StartError::Bind { key, address, source })
}

/// What connections to the public listener are held to.
pub(super) fn limits(config: &Config) -> ConnectionLimits {
    let server = &config.server;
    ConnectionLimits {
        connections: server.max_connections,
        head: server.head_timeout(),
        idle: server.idle_timeout(),
        response: server.response_timeout(),
        grace: server.grace(),
    }
}

/// As [`limits`], of the control listener.
pub(super) fn control_limits(config: &Config) -> ConnectionLimits {
    ConnectionLimits { connections: FEW_CONNECTIONS, ..limits(config) }
}

/// As [`limits`], of the operations listener.
pub(super) fn ops_limits(config: &Config) -> ConnectionLimits {
    ConnectionLimits { grace: OPS_GRACE, ..control_limits(config) }
}

/// The peers of each listener.
#[derive(Debug, Clone)]
pub(super) struct ListenerPeers {
    pub(super) public: Arc<Peers>,
    pub(super) ops: Arc<Peers>,
    pub(super) control: Arc<Peers>,
}

impl ListenerPeers {
    /// No connections yet. Trusted proxies have no bound of their own on any listener.
    pub(super) fn new(trusted_proxies: &[Network]) -> Self {
        let peers = || Arc::new(Peers::new(trusted_proxies.to_vec()));
        Self { public: peers(), ops: peers(), control: peers() }
    }

    /// How many connections each listener has refused, by its label.
    pub(super) fn refused(&self) -> [(&'static str, u64); 3] {
        let Self { public, ops, control } = self;
        [("public", public), ("ops", ops), ("control", control)]
            .map(|(listener, peers)| (listener, peers.refused()))
    }
}

/// An address that can be connected to from this machine.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
    } else {
        address
    }
}
