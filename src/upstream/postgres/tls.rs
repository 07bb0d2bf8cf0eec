//! TLS connections to the database. `sslmode` in the URL decides whether TLS is disabled, preferred
//! (the default) or required. The certificate of a TLS connection is always verified, as libpq does
//! for `verify-full`; only `verify-ca` ignores the host name.

use std::path::Path;

use tokio_postgres_rustls::MakeRustlsConnect;

use super::setup_error::SetupError;
use crate::net::tls;

/// What is verified of a server's certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CertificateCheck {
    /// A trusted authority has signed it for this host name.
    #[default]
    AuthorityAndName,
    /// A trusted authority has signed it.
    Authority,
}

/// A connector that trusts the authorities in `ca_file`, or, without it, the system's.
pub(super) fn connector(
    ca_file: Option<&Path>,
    check: CertificateCheck,
) -> Result<MakeRustlsConnect, SetupError> {
    let config = match check {
        CertificateCheck::AuthorityAndName => tls::client(ca_file),
        CertificateCheck::Authority => tls::client_for_any_name(ca_file),
    };
    Ok(MakeRustlsConnect::new(config?))
}
