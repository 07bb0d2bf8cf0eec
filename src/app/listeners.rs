//! Binds and serves the listeners. Binding and serving are separate steps, so that a start that
//! fails has served nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::error::StartError;
use crate::config::{Config, Network};
use crate::server::{ConnectionLimits, Handler, Listener, Peers, ServerTls, Serving, serve};

/// Maximum connections to the operations listener, and to the control listener.
const MAX_INTERNAL_CONNECTIONS: usize = 64;

/// Grace time of the operations listener: its responses come from memory.
const OPS_GRACE: Duration = Duration::from_secs(1);

/// A bound socket that is not served yet, with the configuration key of its address.
pub(super) struct BoundListener {
    key: &'static str,
    address: SocketAddr,
    tcp: TcpListener,
}

impl BoundListener {
    pub(super) async fn bind(key: &'static str, address: SocketAddr) -> Result<Self, StartError> {
        match TcpListener::bind(address).await {
            Ok(tcp) => Ok(Self { key, address, tcp }),
            Err(source) => Err(StartError::Bind { key, address, source }),
        }
    }

    pub(super) fn serve<H: Handler>(
        self,
        handler: H,
        tls: Option<ServerTls>,
        peers: Arc<Peers>,
        limits: ConnectionLimits,
    ) -> Result<Serving, StartError> {
        let Self { key, address, tcp } = self;
        serve(Listener::new(tcp, tls, peers), Arc::new(handler), limits)
            .map_err(|source| StartError::Bind { key, address, source })
    }
}

/// The limits of the public listener.
pub(super) fn limits(config: &Config) -> ConnectionLimits {
    let server = &config.server;
    ConnectionLimits {
        connections: server.max_connections,
        head: Duration::from_millis(server.head_timeout_ms),
        idle: Duration::from_millis(server.idle_timeout_ms),
        response: Duration::from_millis(server.response_timeout_ms),
        grace: Duration::from_millis(server.grace_ms),
    }
}

/// The limits of the control listener.
pub(super) fn control_limits(config: &Config) -> ConnectionLimits {
    ConnectionLimits { connections: MAX_INTERNAL_CONNECTIONS, ..limits(config) }
}

/// The limits of the operations listener.
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

/// TLS for the public listener, if it is configured.
pub(super) fn tls(config: &Config) -> Result<Option<ServerTls>, StartError> {
    let tls = &config.server.tls;
    let load =
        |(cert, key)| ServerTls::new(cert, key, Duration::from_millis(tls.handshake_timeout_ms));
    Ok(tls.files().map(load).transpose()?)
}
