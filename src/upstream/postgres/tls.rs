//! TLS towards the database. Certificates and host names are always verified; `sslmode` in the
//! URL says only whether TLS is refused, tried (the default) or required.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::SetupError;

/// A connector that trusts `ca_file`'s authorities, or else the system's.
pub(super) fn connector(ca_file: Option<&Path>) -> Result<MakeRustlsConnect, SetupError> {
    let roots = match ca_file {
        Some(path) => from_file(path)?,
        None => from_system(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn from_file(path: &Path) -> Result<RootCertStore, SetupError> {
    let wrong =
        |why: &dyn std::fmt::Display| SetupError::Authorities(format!("{}: {why}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"no certificate in it"));
    }
    Ok(roots)
}

/// None at all is no error yet: the database may be spoken to without TLS. A server that offers
/// TLS is then refused, as one with an unknown authority is.
fn from_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
