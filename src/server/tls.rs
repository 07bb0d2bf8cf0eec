//! TLS on a listener: HTTP/2 and HTTP/1.1 by ALPN, with a certificate that is read again when its
//! files change. A pair that can't be used never takes the place of one that can.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_cert::der::Decode;

/// Between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A certificate and its key can't be used. Says nothing of what is in the key's file.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("{}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no certificate in the file, or one that is none.
    #[error("{}: not a chain of certificates in PEM", .0.display())]
    NoCertificate(PathBuf),
    /// There is no private key in the file.
    #[error("{}: not a private key in PEM", .0.display())]
    NoKey(PathBuf),
    /// The two don't belong together, or are of a kind that is not supported.
    #[error("{} and {}: {source}", .cert.display(), .key.display())]
    Unfit {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong with them.
        source: rustls::Error,
    },
}

/// What came of reading the files again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reloaded {
    /// The new certificate is in use.
    InUse,
    /// The one before stays in use.
    Refused,
}

/// TLS on one listener. Cheap to clone.
#[derive(Clone)]
pub struct Tls {
    files: Files,
    current: Arc<Current>,
    acceptor: TlsAcceptor,
    handshake: Duration,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// TLS with the certificate in `cert` and the key in `key`; a handshake may take `handshake`.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn new(cert: &Path, key: &Path, handshake: Duration) -> Result<Self, TlsError> {
        let files = Files { cert: cert.to_owned(), key: key.to_owned() };
        let pair = files.read().and_then(|contents| files.pair(&contents))?;
        pair.warn_if_over(&files);
        let current = Arc::new(Current(RwLock::new(Arc::new(pair))));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| files.unfit(error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { files, current, acceptor, handshake })
    }

    /// Everything that is wrong with the two files; nothing where [`Self::new`] would take them.
    pub fn faults(cert: &Path, key: &Path) -> Vec<TlsError> {
        let files = Files { cert: cert.to_owned(), key: key.to_owned() };
        let chain = read(&files.cert).and_then(|text| files.chain(&text)).map(drop);
        let key = read(&files.key).and_then(|text| files.key(&text)).map(drop);
        let found: Vec<_> = [chain, key].into_iter().filter_map(Result::err).collect();
        if !found.is_empty() {
            return found;
        }
        files.read().and_then(|contents| files.pair(&contents)).err().into_iter().collect()
    }

    /// When the certificate in use ends, in seconds since 1970.
    pub fn expires_at(&self) -> u64 {
        self.current.get().expires_at
    }

    /// Reads the files again whenever they have changed, for ever; `told` of what came of it.
    pub async fn watch(self, told: impl Fn(Reloaded)) {
        // What was read at the start may have been replaced since: the first look finds out.
        let mut known = None;
        loop {
            let files = self.files.clone();
            // Both are small, but may be on a file system that hangs.
            let read = tokio::task::spawn_blocking(move || files.read()).await;
            if let Ok(read) = read {
                let found = read.as_ref().ok().map(Contents::fingerprint);
                if known != Some(found) {
                    known = Some(found);
                    self.take(read, &told);
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn take(&self, read: Result<Contents, TlsError>, told: &impl Fn(Reloaded)) {
        match read.and_then(|contents| self.files.pair(&contents)) {
            Ok(pair) if pair.key.cert == self.current.get().key.cert => {}
            Ok(pair) => {
                tracing::info!(expires_at = pair.expires_at, "a new certificate is in use");
                pair.warn_if_over(&self.files);
                self.current.set(pair);
                told(Reloaded::InUse);
            }
            Err(error) => {
                tracing::error!(%error, "the certificate in use stays, for the new one is no good");
                told(Reloaded::Refused);
            }
        }
    }

    /// The handshake, in bounded time.
    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        tokio::time::timeout(self.handshake, self.acceptor.accept(stream)).await?
    }
}

/// The pair in use.
#[derive(Debug)]
struct Current(RwLock<Arc<Pair>>);

impl Current {
    fn get(&self) -> Arc<Pair> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, pair: Pair) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.get().key))
    }
}

#[derive(Debug)]
struct Pair {
    key: Arc<CertifiedKey>,
    expires_at: u64,
}

impl Pair {
    fn warn_if_over(&self, files: &Files) {
        if self.expires_at <= u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0) {
            tracing::warn!(file = %files.cert.display(), "the certificate has expired");
        }
    }
}

#[derive(Debug, Clone)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
}

struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Contents {
    fn fingerprint(&self) -> [u8; 32] {
        let of_cert = Sha256::digest(&self.cert);
        Sha256::new().chain_update(of_cert).chain_update(&self.key).finalize().into()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

impl Files {
    fn read(&self) -> Result<Contents, TlsError> {
        Ok(Contents { cert: read(&self.cert)?, key: read(&self.key)? })
    }

    fn pair(&self, contents: &Contents) -> Result<Pair, TlsError> {
        let (chain, expires_at) = self.chain(&contents.cert)?;
        let key = self.key(&contents.key)?;
        let provider = rustls::crypto::ring::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider);
        let key = Arc::new(key.map_err(|error| self.unfit(error))?);
        Ok(Pair { key, expires_at })
    }

    /// The certificates, and when the first ends.
    fn chain(&self, text: &[u8]) -> Result<(Vec<CertificateDer<'static>>, u64), TlsError> {
        let no_certificate = || TlsError::NoCertificate(self.cert.clone());
        let chain: Vec<_> = CertificateDer::pem_slice_iter(text)
            .collect::<Result<_, _>>()
            .map_err(|_| no_certificate())?;
        let first = chain.first().ok_or_else(no_certificate)?;
        let certificate = x509_cert::Certificate::from_der(first).map_err(|_| no_certificate())?;
        let not_after = certificate.tbs_certificate.validity.not_after;
        Ok((chain, not_after.to_unix_duration().as_secs()))
    }

    fn key(&self, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
        PrivateKeyDer::from_pem_slice(text).map_err(|_| TlsError::NoKey(self.key.clone()))
    }

    fn unfit(&self, source: rustls::Error) -> TlsError {
        TlsError::Unfit { cert: self.cert.clone(), key: self.key.clone(), source }
    }
}
