//! `[server.tls]`: TLS on the public listener.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// TLS on a listener: on where both files are named.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// A PEM file: the certificate, then those that lead to its authority.
    pub cert_file: Option<PathBuf>,
    /// A PEM file: the certificate's private key.
    pub key_file: Option<PathBuf>,
    /// How long a handshake may take, in milliseconds.
    pub handshake_timeout_ms: u64,
}

impl TlsConfig {
    /// Certificate and key, where TLS is on.
    pub fn files(&self) -> Option<(&Path, &Path)> {
        Some((self.cert_file.as_deref()?, self.key_file.as_deref()?))
    }

    /// How long a handshake may take.
    pub const fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms)
    }
}
