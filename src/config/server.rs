//! `[server]` and `[ops]`: the listeners.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;

use super::Network;
use super::cors::CorsConfig;
use super::tls::TlsConfig;

/// The public listener. Times are in milliseconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Where it listens.
    pub bind: SocketAddr,
    /// Where clients reach the service, without `/v1`.
    pub public_url: Option<String>,
    /// Proxies whose `Forwarded` and `X-Forwarded-*` are believed, and that may hold any number of
    /// connections.
    pub trusted_proxies: Vec<Network>,
    /// Connections at once; a peer may hold as many as are free.
    pub max_connections: usize,
    /// For the head of a request.
    pub head_timeout_ms: u64,
    /// Of a kept-alive connection without a request.
    pub idle_timeout_ms: u64,
    /// For the answer to a request.
    pub request_timeout_ms: u64,
    /// For a client to take a response, plus one second for each 16 KiB of it.
    pub response_timeout_ms: u64,
    /// How long readiness fails before connections are refused.
    pub drain_ms: u64,
    /// How long requests under way may take at the end.
    pub grace_ms: u64,
    /// TLS.
    pub tls: TlsConfig,
    /// Pages of other origins.
    pub cors: CorsConfig,
}

impl ServerConfig {
    /// For the head of a request.
    pub const fn head_timeout(&self) -> Duration {
        Duration::from_millis(self.head_timeout_ms)
    }

    /// Of a kept-alive connection without a request.
    pub const fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }

    /// For the answer to a request.
    pub const fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    /// For a client to take a response, plus one second for each 16 KiB of it.
    pub const fn response_timeout(&self) -> Duration {
        Duration::from_millis(self.response_timeout_ms)
    }

    /// How long readiness fails before connections are refused.
    pub const fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }

    /// How long requests under way may take at the end.
    pub const fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

/// The operations listener.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpsConfig {
    /// Where it listens.
    pub bind: SocketAddr,
}
