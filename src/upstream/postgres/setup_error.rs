//! Errors in the settings of the database: URLs, TLS and pool.

use thiserror::Error;

use crate::net::AuthoritiesError;

/// Why the configuration cannot be used to connect. Never contains the URL, which contains the
/// password.
#[derive(Debug, Error)]
pub enum SetupError {
    /// No URL is configured.
    #[error("upstream.url is not set; set it or DATABASE_URL")]
    NoUrl,
    /// The URL is invalid.
    #[error("upstream.url: not a valid postgres:// URL: {0}")]
    InvalidUrl(String),
    /// The URL of a standby, by its number in the list, from 1, is invalid.
    #[error("upstream.read_urls: entry {0} is not a valid postgres:// URL: {1}")]
    InvalidStandbyUrl(usize, String),
    /// The file of certificate authorities cannot be read, or TLS cannot be set up.
    #[error("upstream.tls_ca_file: {0}")]
    Authorities(#[from] AuthoritiesError),
    /// The pool cannot be set up.
    #[error("upstream.pool_size: the pool cannot be set up")]
    Pool,
}
