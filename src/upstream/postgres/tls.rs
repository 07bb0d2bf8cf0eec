//! TLS towards the database. `sslmode` in the URL says whether TLS is refused, tried (the default)
//! or required. Whatever comes over TLS is always verified, as libpq does for `verify-full`; only
//! `verify-ca` leaves the host's name out.

use std::path::Path;

use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::SetupError;
use crate::net::{AuthoritiesError, tls};

/// What a server's certificate must prove.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Proof {
    /// That a trusted authority has signed it, for this host.
    #[default]
    AuthorityAndName,
    /// That a trusted authority has signed it.
    Authority,
}

/// A connector that trusts `ca_file`'s authorities, or else the system's.
pub(super) fn connector(
    ca_file: Option<&Path>,
    proof: Proof,
) -> Result<MakeRustlsConnect, SetupError> {
    let config = match proof {
        Proof::AuthorityAndName => tls::client(ca_file),
        Proof::Authority => tls::client_for_any_name(ca_file),
    };
    let config = config.map_err(|error| match error {
        AuthoritiesError::Authorities(why) => SetupError::Authorities(why),
        AuthoritiesError::Settings(error) => SetupError::Tls(error),
    })?;
    Ok(MakeRustlsConnect::new(config))
}
