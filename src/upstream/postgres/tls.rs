//! TLS towards the database. `sslmode` in the URL says only whether TLS is refused, tried (the
//! default) or required.

use std::path::Path;

use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::SetupError;
use crate::tls::{self, TlsError};

/// A connector that trusts `ca_file`'s authorities, or else the system's.
pub(super) fn connector(ca_file: Option<&Path>) -> Result<MakeRustlsConnect, SetupError> {
    let config = tls::client(ca_file).map_err(|error| match error {
        TlsError::Authorities(why) => SetupError::Authorities(why),
        TlsError::Settings(error) => SetupError::Tls(error),
    })?;
    Ok(MakeRustlsConnect::new(config))
}
