//! Binds and serves the listeners. Binding and serving are separate steps, so that a start that
//! fails has served nothing.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::error::StartError;
use crate::config::Config;
use crate::server::{Handler, Limits, Listener, Serving, Tls, serve};

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
        tls: Option<Tls>,
        limits: Limits,
    ) -> Result<Serving, StartError> {
        let Self { key, address, tcp } = self;
        serve(Listener::new(tcp, tls), Arc::new(handler), limits)
            .map_err(|source| StartError::Bind { key, address, source })
    }
}

/// The limits of the public listener; the other listeners derive theirs from these.
pub(super) fn limits(config: &Config) -> Limits {
    Limits {
        connections: config.server.max_connections,
        head: config.server.head_timeout(),
        idle: config.server.idle_timeout(),
        grace: config.server.grace(),
    }
}

/// TLS for the public listener, if it is configured.
pub(super) fn tls(config: &Config) -> Result<Option<Tls>, StartError> {
    let tls = &config.server.tls;
    let load = |(cert, key)| Tls::new(cert, key, tls.handshake_timeout());
    Ok(tls.files().map(load).transpose()?)
}
