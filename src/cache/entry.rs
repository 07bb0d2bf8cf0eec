//! A cache entry: a finished response body with its entity tags. It is serialised once, when it is
//! created, and not when it is served.

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use super::key::canonical_text;
use super::response_body::{ResponseBody, exact};
use crate::registry::Request;
use crate::upstream::ReadStamp;

/// Smaller bodies are not compressed, in bytes.
const MIN_GZIP_BYTES: usize = 1024;

/// Maximum jitter of the ages, in thousandths.
const MAX_JITTER: u32 = 200;

/// A finished response.
#[derive(Debug)]
pub struct Entry {
    /// The JSON.
    pub body: Bytes,
    /// The value of the `Link` header; empty if the response has none.
    pub link: Bytes,
    /// The time of the read, and the state of the database that it saw.
    pub seen: ReadStamp,
    /// The thousandths by which its ages are shortened.
    pub(super) ttl_jitter: u32,
    /// The entity tag, decoded.
    pub(super) etag_bytes: [u8; 16],
    /// The entity tags (RFC 9110, section 8.8.3) of the plain and of the compressed bytes.
    pub(super) etags: [Bytes; 2],
    gzip: OnceLock<Bytes>,
}

impl Entry {
    /// The entry for the response to `request`.
    pub fn new(request: &Request, response: ResponseBody, seen: ReadStamp) -> Self {
        let digest: [u8; 32] = Sha256::digest(&response.body).into();
        let etag_bytes = std::array::from_fn(|index| digest[index]);
        Self::from_parts(request, response, seen, etag_bytes)
    }

    pub(super) fn from_parts(
        request: &Request,
        response: ResponseBody,
        seen: ReadStamp,
        etag_bytes: [u8; 16],
    ) -> Self {
        let ttl_jitter = ttl_jitter(request, &seen);
        let ResponseBody { body, link } = response;
        let digits = HEXLOWER.encode(&etag_bytes);
        let etags = ["", "-gzip"].map(|coding| exact(format!("\"{digits}{coding}\"").into()));
        Self { body, link, seen, ttl_jitter, etag_bytes, etags, gzip: OnceLock::new() }
    }

    /// The entity tag of the compressed (`is_gzip`) or the plain bytes, with its quotes.
    pub fn etag(&self, is_gzip: bool) -> Bytes {
        self.etags[usize::from(is_gzip)].clone()
    }

    /// Whether it is sent compressed to clients that accept gzip.
    pub fn is_compressible(&self) -> bool {
        self.body.len() >= MIN_GZIP_BYTES
    }

    /// The compressed body. It is compressed once, when it is first needed.
    pub fn gzip(&self) -> Bytes {
        self.gzip.get_or_init(|| compressed(&self.body)).clone()
    }
}

fn compressed(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 2), Compression::default());
    // Writing to memory cannot fail.
    let written = encoder.write_all(body).and_then(|()| encoder.finish());
    exact(written.unwrap_or_default())
}

/// The jitter depends on the request and the time of the read: entries written together do not
/// expire together, and every replica computes the same jitter for the same entry.
fn ttl_jitter(request: &Request, seen: &ReadStamp) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(canonical_text(request).as_bytes());
    hasher.update(&seen.read_at.as_microsecond().to_be_bytes());
    hasher.finalize() % (MAX_JITTER + 1)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::registry::Timestamp;

    fn entry(body: String) -> Entry {
        let request = Request::Phenotype(uuid::Uuid::nil().into());
        let response = ResponseBody { body: body.into(), link: "".into() };
        Entry::new(&request, response, ReadStamp::new(Timestamp::UNIX_EPOCH, None))
    }

    #[test]
    fn tags_are_the_hash_of_the_plain_bytes() {
        // SHA-256 of the empty text begins e3b0c44298fc1c149afbf4c8996fb924.
        let entry = entry(String::new());
        assert_eq!(entry.etag(false).as_ref(), b"\"e3b0c44298fc1c149afbf4c8996fb924\"");
        assert_eq!(entry.etag(true).as_ref(), b"\"e3b0c44298fc1c149afbf4c8996fb924-gzip\"");
    }

    #[test]
    fn bodies_of_a_kibibyte_and_more_are_compressed_once() {
        assert!(!entry("x".repeat(1023)).is_compressible());
        let entry = entry("x".repeat(1024));
        let gzip = entry.gzip();
        assert!(entry.is_compressible() && gzip.len() < 100);
        assert_eq!(gzip.as_ptr(), entry.gzip().as_ptr());
        let mut plain = String::new();
        let mut decoder = flate2::read::GzDecoder::new(&gzip[..]);
        decoder.read_to_string(&mut plain).expect("gzip");
        assert_eq!(plain, "x".repeat(1024));
    }

    #[test]
    fn jitter_spreads_entries_written_together() {
        let seen = ReadStamp::new(Timestamp::UNIX_EPOCH, None);
        let jitters: Vec<u32> = (0..100_u128)
            .map(|n| ttl_jitter(&Request::Phenotype(uuid::Uuid::from_u128(n).into()), &seen))
            .collect();
        let (min, max) = (jitters.iter().min(), jitters.iter().max());
        assert!(min < Some(&40) && max > Some(&160), "{min:?} {max:?}");
        assert!(max <= Some(&MAX_JITTER));
    }
}
