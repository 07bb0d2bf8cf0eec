//! `[server.tls]`: TLS on the public listener.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// TLS on the listener. It is on if both files are set.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// A PEM file: the certificate, then its intermediate certificates.
    pub cert_file: Option<PathBuf>,
    /// A PEM file: the certificate's private key.
    pub key_file: Option<PathBuf>,
    /// Timeout of a handshake, in milliseconds.
    pub handshake_timeout_ms: u64,
}

impl TlsConfig {
    /// Certificate and key, if TLS is on.
    pub fn files(&self) -> Option<(&Path, &Path)> {
        Some((self.cert_file.as_deref()?, self.key_file.as_deref()?))
    }
}
