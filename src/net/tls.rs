//! TLS client configurations. Certificates are always verified; host names are verified too, unless
//! the caller chooses [`client_for_any_name`].

use std::path::Path;
use std::sync::Arc;
use std::{io, iter};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use thiserror::Error;

use super::io_reason::io_reason;

/// Whether `error` or one of its causes is a certificate that is not trusted, or is for another name.
pub fn is_untrusted_certificate(error: &(dyn std::error::Error + 'static)) -> bool {
    // The `source` of an I/O error skips the error that it wraps.
    let causes = iter::successors(Some(error), |&error| {
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map_or_else(|| error.source(), |wrapped| Some(wrapped as _))
    });
    let mut causes = causes.filter_map(|error| error.downcast_ref());
    causes.any(|error| matches!(error, Error::InvalidCertificate(_)))
}

/// Why there is no TLS configuration.
#[derive(Debug, Error)]
pub enum AuthoritiesError {
    /// The file of certificate authorities can't be read; says why.
    #[error("{0}")]
    Authorities(String),
    /// The TLS library refuses the settings.
    #[error("TLS cannot be set up")]
    Settings(#[from] Error),
}

/// A configuration that trusts the authorities in `ca_file`, or else the system's.
///
/// # Errors
/// [`AuthoritiesError`].
pub fn client(ca_file: Option<&Path>) -> Result<ClientConfig, AuthoritiesError> {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots(ca_file)?).with_no_client_auth())
}

/// Like [`client`], but accepts certificates for any name. Only for authorities that certify no
/// other servers than the ones that this client connects to.
///
/// # Errors
/// [`AuthoritiesError`].
pub fn client_for_any_name(ca_file: Option<&Path>) -> Result<ClientConfig, AuthoritiesError> {
    let mut config = client(ca_file)?;
    let roots = roots(ca_file)?;
    // The verifier can't be built without authorities; the default one then trusts no server.
    if !roots.is_empty() {
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        let verifier =
            verifier.map_err(|error| AuthoritiesError::Authorities(error.to_string()))?;
        config.dangerous().set_certificate_verifier(Arc::new(AnyName(verifier)));
    }
    Ok(config)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, AuthoritiesError> {
    ca_file.map_or_else(|| Ok(from_system()), from_file)
}

/// Verifies everything except the name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is checked last, when everything else has been verified.
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn from_file(path: &Path) -> Result<RootCertStore, AuthoritiesError> {
    let wrong = |why: &dyn std::fmt::Display| {
        AuthoritiesError::Authorities(format!("{}: {why}", path.display()))
    };
    let malformed = |error: pem::Error| match error {
        pem::Error::Io(error) => wrong(&io_reason(&error)),
        // Others quote the file.
        _ => wrong(&"malformed PEM"),
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(malformed)? {
        let certificate = certificate.map_err(malformed)?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"the file contains no certificate"));
    }
    Ok(roots)
}

/// The system's authorities. It is no error if there are none, since TLS may never be used; a
/// server that uses TLS then has an unknown authority.
fn from_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
