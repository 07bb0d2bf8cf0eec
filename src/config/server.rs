//! `[server]` and `[ops]`: the listeners.

use std::net::SocketAddr;

use serde::Deserialize;

use super::Network;
use super::cors::CorsConfig;
use super::tls::TlsConfig;

/// The public listener. Times are in milliseconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// The address to listen on; port 0 takes a free port.
    pub bind: SocketAddr,
    /// The URL at which clients reach the service, without `/v1`.
    pub public_url: Option<String>,
    /// Whether the document names the address that a client used that came without a proxy: in the
    /// demo, which is only ever at an address of its own.
    #[serde(skip)]
    pub documents_own_address: bool,
    /// Proxies whose `Forwarded` and `X-Forwarded-*` headers are trusted, and that may hold any
    /// number of connections.
    pub trusted_proxies: Vec<Network>,
    /// Maximum number of connections. A peer may hold as many as are free.
    pub max_connections: usize,
    /// Timeout for the head of a request.
    pub head_timeout_ms: u64,
    /// Timeout of a kept-alive connection without a request.
    pub idle_timeout_ms: u64,
    /// Timeout for the response to a request; 503 after it.
    pub request_timeout_ms: u64,
    /// For a client to receive a response, plus one second for each 16 KiB of it.
    pub response_timeout_ms: u64,
    /// `max-age` of `Strict-Transport-Security`, in seconds; 0 if it is not sent.
    pub hsts_max_age_s: u64,
    /// At shutdown: how long readiness fails before connections are refused.
    pub drain_ms: u64,
    /// At shutdown: how long requests under way may take.
    pub grace_ms: u64,
    /// TLS on this listener.
    pub tls: TlsConfig,
    /// The origins whose pages may read responses.
    pub cors: CorsConfig,
}

/// The operations listener.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpsConfig {
    /// The address to listen on; port 0 takes a free port.
    pub bind: SocketAddr,
}
