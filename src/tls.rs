//! TLS towards others. Certificates and host names are always verified.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

/// Why TLS can't be set up.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The certificate authorities can't be read.
    #[error("{0}")]
    Authorities(String),
    /// The library refuses its settings.
    #[error("TLS cannot be set up")]
    Settings(#[from] rustls::Error),
}

/// A client that trusts `ca_file`'s authorities, or else the system's.
///
/// # Errors
/// [`TlsError`].
pub fn client(ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let roots = match ca_file {
        Some(path) => from_file(path)?,
        None => from_system(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn from_file(path: &Path) -> Result<RootCertStore, TlsError> {
    let wrong =
        |why: &dyn std::fmt::Display| TlsError::Authorities(format!("{}: {why}", path.display()));
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

/// None at all is no error yet: the other side may be spoken to without TLS. A server that offers
/// TLS is then refused, as one with an unknown authority is.
fn from_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
