//! TLS on a listener: HTTP/2 and HTTP/1.1 by ALPN, with a certificate that is reloaded when its
//! files change. A certificate that cannot be used never replaces one that can.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_cert::der::Decode;

use crate::net::io_reason;
/// Time between two reads of the files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

/// Why a certificate and its key cannot be used. Reveals nothing of the key's file.
#[derive(Debug, Error)]
pub enum ServerTlsError {
    /// A file can't be read.
    #[error("{}: {}", .path.display(), io_reason(.source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file holds no certificate, or a malformed one.
    #[error("{}: not a chain of certificates in PEM", .0.display())]
    NoCertificate(PathBuf),
    /// The file holds no private key.
    #[error("{}: not a private key in PEM", .0.display())]
    NoKey(PathBuf),
    /// The key does not match the certificate, or one of them is of an unsupported kind.
    #[error("{} and {}: {source}", .cert.display(), .key.display())]
    Unusable {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
}

/// TLS on one listener. Cheap to clone.
#[derive(Clone)]
pub struct ServerTls {
    files: CertificateFiles,
    current: Arc<CurrentCertificate>,
    acceptor: TlsAcceptor,
    handshake: Duration,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ServerTls {
    /// TLS with the PEM files `cert` and `key`. A handshake that takes longer than `handshake`
    /// fails.
    ///
    /// # Errors
    /// If a file cannot be read, is malformed, or does not match the other.
    pub fn new(cert: &Path, key: &Path, handshake: Duration) -> Result<Self, ServerTlsError> {
        let files = CertificateFiles { cert: cert.to_owned(), key: key.to_owned() };
        let pair = files.read().and_then(|contents| files.pair(&contents))?;
        pair.warn_if_expired(&files);
        let current = Arc::new(CurrentCertificate(RwLock::new(Arc::new(pair))));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| files.unusable(error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { files, current, acceptor, handshake })
    }

    /// All errors of the two files; none if [`Self::new`] accepts them.
    pub fn check(cert: &Path, key: &Path) -> Vec<ServerTlsError> {
        let files = CertificateFiles { cert: cert.to_owned(), key: key.to_owned() };
        let chain = read(&files.cert).and_then(|text| files.chain(&text)).map(drop);
        let key = read(&files.key).and_then(|text| files.key(&text)).map(drop);
        let found: Vec<_> = [chain, key].into_iter().filter_map(Result::err).collect();
        if !found.is_empty() {
            return found;
        }
        files.read().and_then(|contents| files.pair(&contents)).err().into_iter().collect()
    }

    /// When the certificate in use expires, in seconds since 1970.
    pub fn expires_at(&self) -> u64 {
        self.current.get().expires_at
    }

    /// Reloads the files whenever they change. Then calls `report`: with `true` if the new
    /// certificate is in use, with `false` if it cannot be used. Returns only when the runtime
    /// shuts down.
    pub async fn watch(self, report: impl Fn(bool)) {
        let hasher = RandomState::new();
        // `None`: the files may have changed since they were read at the start.
        let mut known = None;
        loop {
            let files = self.files.clone();
            // Both are small, but may be on a file system that hangs.
            let read = match tokio::task::spawn_blocking(move || files.read()).await {
                Ok(read) => read,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The runtime is shutting down.
                    Err(_cancelled) => return,
                },
            };
            let found = Some(hasher.hash_one(read.as_ref().ok()));
            if known != found {
                known = found;
                self.apply(read, &report);
            }
            tokio::time::sleep(RELOAD_INTERVAL).await;
        }
    }

    fn apply(&self, read: Result<FileContents, ServerTlsError>, report: &impl Fn(bool)) {
        match read.and_then(|contents| self.files.pair(&contents)) {
            Ok(pair) if pair.key.cert == self.current.get().key.cert => {}
            Ok(pair) => {
                tracing::info!(expires_at = pair.expires_at, "a new certificate is in use");
                pair.warn_if_expired(&self.files);
                self.current.set(pair);
                report(true);
            }
            Err(error) => {
                tracing::error!(%error, "the new certificate cannot be used; the previous one stays in use");
                report(false);
            }
        }
    }

    /// Performs the handshake, in bounded time.
    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        tokio::time::timeout(self.handshake, self.acceptor.accept(stream)).await?
    }
}

/// The certificate and key in use.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertificateAndKey>>);

impl CurrentCertificate {
    fn get(&self) -> Arc<CertificateAndKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, pair: CertificateAndKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.get().key))
    }
}

#[derive(Debug)]
struct CertificateAndKey {
    key: Arc<CertifiedKey>,
    expires_at: u64,
}

impl CertificateAndKey {
    fn warn_if_expired(&self, files: &CertificateFiles) {
        if self.expires_at <= u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0) {
            tracing::warn!(file = %files.cert.display(), "the certificate has expired");
        }
    }
}

#[derive(Debug, Clone)]
struct CertificateFiles {
    cert: PathBuf,
    key: PathBuf,
}

#[derive(Hash)]
struct FileContents {
    cert: Vec<u8>,
    key: Vec<u8>,
}

fn read(path: &Path) -> Result<Vec<u8>, ServerTlsError> {
    std::fs::read(path)
        .map_err(|source| ServerTlsError::Unreadable { path: path.to_owned(), source })
}

impl CertificateFiles {
    fn read(&self) -> Result<FileContents, ServerTlsError> {
        Ok(FileContents { cert: read(&self.cert)?, key: read(&self.key)? })
    }

    fn pair(&self, contents: &FileContents) -> Result<CertificateAndKey, ServerTlsError> {
        let (chain, expires_at) = self.chain(&contents.cert)?;
        let key = self.key(&contents.key)?;
        let provider = rustls::crypto::ring::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider);
        let key = Arc::new(key.map_err(|error| self.unusable(error))?);
        Ok(CertificateAndKey { key, expires_at })
    }

    /// The certificates, and when the first expires, in seconds since 1970.
    fn chain(&self, text: &[u8]) -> Result<(Vec<CertificateDer<'static>>, u64), ServerTlsError> {
        let no_certificate = || ServerTlsError::NoCertificate(self.cert.clone());
        let chain: Vec<_> = CertificateDer::pem_slice_iter(text)
            .collect::<Result<_, _>>()
            .map_err(|_| no_certificate())?;
        let first = chain.first().ok_or_else(no_certificate)?;
        let certificate = x509_cert::Certificate::from_der(first).map_err(|_| no_certificate())?;
        let not_after = certificate.tbs_certificate.validity.not_after;
        Ok((chain, not_after.to_unix_duration().as_secs()))
    }

    fn key(&self, text: &[u8]) -> Result<PrivateKeyDer<'static>, ServerTlsError> {
        PrivateKeyDer::from_pem_slice(text).map_err(|_| ServerTlsError::NoKey(self.key.clone()))
    }

    fn unusable(&self, source: rustls::Error) -> ServerTlsError {
        ServerTlsError::Unusable { cert: self.cert.clone(), key: self.key.clone(), source }
    }
}
