//! The reasons why a replica cannot start. Each text names the configuration key to correct.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::net::{AuthoritiesError, io_reason};
use crate::ops::TracesError;
use crate::redis::ServersError;
use crate::server::ServerTlsError;
use crate::upstream::postgres::SetupError;

/// Why a replica could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The service cannot listen on an address.
    #[error("{key}: cannot listen on {address}: {}", io_reason(.source))]
    Bind {
        /// The configuration key.
        key: &'static str,
        /// Its value.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The `[redis]` section cannot be used.
    #[error(transparent)]
    Redis(#[from] ServersError),
    /// The exporter of spans cannot be set up.
    #[error("telemetry.otlp_endpoint: {0}")]
    Traces(#[from] TracesError),
    /// The certificate or its private key cannot be used.
    #[error("server.tls: {0}")]
    Tls(#[from] ServerTlsError),
    /// A database that keys or their use are written to cannot be used as configured.
    #[error("{}", database_text(.key, .error))]
    Database {
        /// The configuration key of its URL.
        key: &'static str,
        /// What is wrong with it.
        error: SetupError,
    },
    /// The file of the issuer's certificate authorities cannot be read.
    #[error("control.oidc.tls_ca_file: {0}")]
    Issuer(#[from] AuthoritiesError),
}

fn database_text(key: &str, error: &SetupError) -> String {
    match error {
        SetupError::InvalidUrl(why) => format!("{key}: not a valid postgres:// URL: {why}"),
        other => other.to_string(),
    }
}
