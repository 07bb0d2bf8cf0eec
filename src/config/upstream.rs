//! `[upstream]`: the registry's database.

use std::path::PathBuf;

use secrecy::SecretString;
use serde::Deserialize;

/// The registry's database, and its timeouts in milliseconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamConfig {
    /// `postgres://…`; also set by `DATABASE_URL`.
    pub url: Option<SecretString>,
    /// A file with that URL.
    pub url_file: Option<PathBuf>,
    /// `postgres://…` of standbys to read from, one server each; at most 16.
    pub read_urls: Vec<SecretString>,
    /// A file with those URLs, one a line.
    pub read_urls_file: Option<PathBuf>,
    /// Standbys that lag by more are not read.
    pub max_lag_ms: u64,
    /// A PEM file with the certificate authorities to trust instead of the system's.
    pub tls_ca_file: Option<PathBuf>,
    /// Maximum number of connections, 1 to 10000.
    pub pool_size: usize,
    /// Timeout for a free connection.
    pub wait_ms: u64,
    /// Timeout for a new connection.
    pub connect_ms: u64,
    /// Timeout of one statement.
    pub query_ms: u64,
    /// How long sent data may stay unacknowledged before the kernel closes the connection.
    pub tcp_user_timeout_ms: u64,
    /// Timeout of one read: all of the above and one retry.
    pub deadline_ms: u64,
    /// `false` uses unnamed statements, as PgBouncer in transaction mode requires.
    pub prepared_statements: bool,
}
