//! A cache entry: a finished response body with its entity tags. It is serialised once, when it is
//! created, and not when it is served.

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use poem::http::HeaderValue;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::key::canonical_text;
use crate::registry::{GenePage, GeneSearch, Page, PageOffset, Request, Sort};
use crate::upstream::ReadStamp;

/// Smaller bodies are not compressed, in bytes.
const MIN_GZIP_BYTES: usize = 1024;

/// Maximum jitter of the ages, in thousandths.
const MAX_JITTER: u32 = 200;

/// How a page without genes begins.
const NO_GENES: &[u8] = br#"{"data":[]"#;

/// Everything but `-._~`, letters and digits.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A response body, and the one header that depends on the same values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseBody {
    /// The JSON.
    pub body: Bytes,
    /// The value of the `Link` header; empty if the response has none.
    pub link: HeaderValue,
}

impl ResponseBody {
    /// A page, with links to the next and the previous page.
    pub fn page(search: &GeneSearch, page: &GenePage) -> Self {
        Self { body: json(page), link: visible(links(search, page.total.get())) }
    }

    /// Any other value, without links.
    pub fn of(value: &impl Serialize) -> Self {
        Self { body: json(value), link: HeaderValue::from_static("") }
    }
}

/// A finished response.
#[derive(Debug)]
pub struct Entry {
    /// The JSON.
    pub body: Bytes,
    /// The value of the `Link` header; empty if the response has none.
    pub link: HeaderValue,
    /// The time of the read, and the state of the database that it saw.
    pub seen: ReadStamp,
    /// The thousandths by which its ages are shortened.
    pub(super) ttl_jitter: u32,
    /// The entity tag, decoded.
    pub(super) etag_bytes: [u8; 16],
    /// The entity tags (RFC 9110, section 8.8.3) of the plain and of the compressed bytes.
    pub(super) etags: [HeaderValue; 2],
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
        let etags = ["", "-gzip"].map(|coding| visible(format!("\"{digits}{coding}\"")));
        Self { body, link, seen, ttl_jitter, etag_bytes, etags, gzip: OnceLock::new() }
    }

    /// The entity tag of the compressed (`is_gzip`) or the plain bytes, with its quotes.
    pub fn etag(&self, is_gzip: bool) -> HeaderValue {
        self.etags[usize::from(is_gzip)].clone()
    }

    /// Whether it is a page without genes.
    pub(super) fn is_empty_page(&self) -> bool {
        self.body.starts_with(NO_GENES)
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

fn json(value: &impl Serialize) -> Bytes {
    // The values of the domain have string keys and finite numbers only, so this cannot fail.
    exact(serde_json::to_vec(value).unwrap_or_default())
}

/// The bytes without spare capacity, since a cache keeps them.
pub(super) fn exact(bytes: Vec<u8>) -> Bytes {
    bytes.into_boxed_slice().into()
}

/// A header's value that is made of visible ASCII; empty if it is not.
fn visible(text: String) -> HeaderValue {
    HeaderValue::from_maybe_shared(exact(text.into())).unwrap_or(HeaderValue::from_static(""))
}

/// `next` and `prev` (RFC 8288) as query-only references, which are valid behind any proxy and
/// under any path.
fn links(search: &GeneSearch, total: u64) -> String {
    let (limit, offset) = (u64::from(search.page.limit()), u64::from(search.page.offset()));
    let next = Some(offset + limit).filter(|next| *next < total);
    let prev = Some(offset.saturating_sub(limit)).filter(|_| offset > 0);
    [(next, "next"), (prev, "prev")]
        .into_iter()
        .filter_map(|(offset, rel)| {
            let page = search.page.with_offset(PageOffset::new(offset?)?);
            Some(format!("<?{}>; rel=\"{rel}\"", query(search, page)))
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn query(search: &GeneSearch, page: Page) -> String {
    let mut query = String::new();
    if let Some(domain) = &search.filter.domain {
        query.push_str(&format!("domain={}&", utf8_percent_encode(domain.as_str(), VALUE)));
    }
    if let Some(fidelity) = search.filter.fidelity {
        query.push_str(&format!("fidelity={}&", fidelity.as_str()));
    }
    if search.sort != Sort::default() {
        query.push_str(&format!("sort={}&", search.sort.as_str()));
    }
    query.push_str(&format!("limit={}&offset={}", page.limit(), page.offset()));
    query
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::registry::{
        Count, Fidelity, GeneCounts, GeneFilter, GeneSummary, PageLimit, Timestamp,
    };

    fn entry(body: String) -> Entry {
        let request = Request::Phenotype(uuid::Uuid::nil().into());
        let response = ResponseBody { body: body.into(), link: HeaderValue::from_static("") };
        Entry::new(&request, response, ReadStamp::new(Timestamp::UNIX_EPOCH, None))
    }

    #[test]
    fn tags_are_the_hash_of_the_plain_bytes() {
        // SHA-256 of the empty text begins e3b0c44298fc1c149afbf4c8996fb924.
        let entry = entry(String::new());
        assert_eq!(entry.etag(false), "\"e3b0c44298fc1c149afbf4c8996fb924\"");
        assert_eq!(entry.etag(true), "\"e3b0c44298fc1c149afbf4c8996fb924-gzip\"");
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

    fn search(limit: u64, offset: u64) -> GeneSearch {
        let page = Page::new(
            PageLimit::new(limit).expect("a limit"),
            PageOffset::new(offset).expect("an offset"),
        );
        GeneSearch { page, ..GeneSearch::default() }
    }

    #[test]
    fn pages_without_genes_are_recognized() {
        let gene = GeneSummary {
            id: uuid::Uuid::nil().into(),
            name: String::new(),
            domain: String::new(),
            fidelity: Fidelity::Native,
            description: String::new(),
            fitness_score: 0.0,
            reputation_score: 0.0,
            owner: String::new(),
            downloads: Count::default(),
            arena_rank: Count::default(),
            arena_history: Vec::new(),
        };
        let counts = GeneCounts { total: Count::saturating(7), broken: Count::default() };
        let page = |data| {
            let search = search(20, 99);
            ResponseBody::page(&search, &GenePage::new(search.page, data, counts))
        };
        for (response, expected) in [
            (page(Vec::new()), true),
            (page(vec![gene.clone()]), false),
            (ResponseBody::of(&gene), false),
        ] {
            let seen = ReadStamp::new(Timestamp::UNIX_EPOCH, None);
            let entry = Entry::new(&Request::Search(search(20, 99)), response, seen);
            assert_eq!(entry.is_empty_page(), expected, "{:?}", entry.body);
        }
    }

    #[test]
    fn links_point_to_the_next_and_previous_page() {
        assert_eq!(links(&search(20, 0), 20), "");
        assert_eq!(links(&search(20, 0), 21), r#"<?limit=20&offset=20>; rel="next""#);
        assert_eq!(
            links(&search(20, 30), 99),
            r#"<?limit=20&offset=50>; rel="next", <?limit=20&offset=10>; rel="prev""#
        );
        assert_eq!(links(&search(20, 7), 7), r#"<?limit=20&offset=0>; rel="prev""#);
    }

    #[test]
    fn no_link_exceeds_the_maximum_offset() {
        let last = search(50, PageOffset::MAX.into());
        assert_eq!(links(&last, u64::MAX), r#"<?limit=50&offset=2147483597>; rel="prev""#);
    }

    #[test]
    fn links_carry_the_filters_and_escape_them() {
        let filter = GeneFilter {
            domain: Some("a&b=\u{1F9EC} >\"".parse().expect("a domain")),
            fidelity: Some(Fidelity::Native),
        };
        let search = GeneSearch { filter, sort: Sort::Downloads, ..search(1, 0) };
        assert_eq!(
            links(&search, 2),
            "<?domain=a%26b%3D%F0%9F%A7%AC%20%3E%22&fidelity=Native&sort=downloads&limit=1&offset=1>; rel=\"next\""
        );
    }
}
