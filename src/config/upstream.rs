//! `[upstream]`: the registry's database.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

/// The registry's database and how long to wait for it. Times are in milliseconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamConfig {
    /// `postgres://…`; `DATABASE_URL` sets it too.
    pub url: Option<SecretString>,
    /// `postgres://…` of standbys, one server each, that answers are read from too.
    pub read_urls: Vec<SecretString>,
    /// A standby that lags by more is not read.
    pub max_lag_ms: u64,
    /// A PEM file with the certificate authorities to trust instead of the system's.
    pub tls_ca_file: Option<PathBuf>,
    /// Connections at most.
    pub pool_size: usize,
    /// Longest wait for a free connection.
    pub wait_ms: u64,
    /// Longest wait for a new connection.
    pub connect_ms: u64,
    /// Longest wait for the answer to one statement.
    pub query_ms: u64,
    /// How long sent data may stay unacknowledged before the kernel gives a connection up.
    pub tcp_user_timeout_ms: u64,
    /// Longest wait for one read, with everything above and its one retry.
    pub deadline_ms: u64,
    /// `false` uses unnamed statements, for PgBouncer in transaction mode.
    pub prepared_statements: bool,
}

impl UpstreamConfig {
    /// Longest wait for a free connection.
    pub const fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }

    /// Longest wait for a new connection.
    pub const fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }

    /// Longest wait for the answer to one statement.
    pub const fn query(&self) -> Duration {
        Duration::from_millis(self.query_ms)
    }

    /// How long sent data may stay unacknowledged.
    pub const fn tcp_user_timeout(&self) -> Duration {
        Duration::from_millis(self.tcp_user_timeout_ms)
    }

    /// The most that a standby may lag.
    pub const fn max_lag(&self) -> Duration {
        Duration::from_millis(self.max_lag_ms)
    }

    /// Longest wait for one read.
    pub const fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms)
    }
}
