//! The tests' own certificates.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::scratch_folder;

/// From the first day of one year to the first day of another.
pub(crate) const VALID: (i32, i32) = (2020, 4000);
pub(crate) const EXPIRED: (i32, i32) = (2020, 2021);

/// A certificate authority of the tests.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// The file of its certificate (PEM).
    pub(crate) file: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = scratch_folder("authority").join("ca.pem");
        std::fs::write(&file, issuer.pem()).unwrap();
        Self { issuer, file }
    }

    /// Issues a server certificate; the files of the certificate and its key.
    pub(crate) fn certify(&self, name: &str, years: (i32, i32)) -> (PathBuf, PathBuf) {
        self.certify_with(name, |params| {
            params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
            params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        })
    }

    /// As [`certify`](Self::certify), until so many days from now.
    pub(crate) fn certify_for_days(&self, name: &str, days: u64) -> (PathBuf, PathBuf) {
        let end = SystemTime::now() + Duration::from_secs(days * 86_400);
        self.certify_with(name, |params| params.not_after = end.into())
    }

    fn certify_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let folder = scratch_folder("certificate");
        let files = (folder.join("server.crt"), folder.join("server.key"));
        std::fs::write(&files.0, certificate.pem()).unwrap();
        std::fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }
}
