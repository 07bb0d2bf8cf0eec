//! Files that never change while the process runs: compressed once, with an entity tag and the
//! security headers of pages.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use poem::http::{HeaderMap, HeaderValue, StatusCode, header};
use poem::web::headers::HeaderMapExt;
use poem::{Body, Endpoint, Request, Response, Result};
use sha2::{Digest, Sha256};

use super::{conditional, headers};

pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const SCRIPT: &str = "text/javascript; charset=utf-8";
pub(crate) const STYLE: &str = "text/css; charset=utf-8";
pub(crate) const ICON: &str = "image/svg+xml";
pub(crate) const JSON: &str = "application/json";

/// Pages use only this service's own files: no inline scripts or styles, and no other site.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Browsers revalidate each time, so that all files of a page are of one version.
const REVALIDATE: HeaderValue = HeaderValue::from_static("public, no-cache");
const ONE_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// The path, content type and text of a file that belongs to a page.
pub(crate) type PageFile = (&'static str, &'static str, &'static str);

/// A file, plain and compressed. Cheap to clone: the bytes are shared.
#[derive(Clone)]
pub(crate) struct StaticFile(Arc<FileContent>);

struct FileContent {
    content_type: &'static str,
    cache_control: HeaderValue,
    body: Bytes,
    /// Compressed when first needed.
    gzip: OnceLock<Bytes>,
    hash: String,
}

impl StaticFile {
    /// A file of a page, which browsers revalidate each time.
    pub(crate) fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::with_caching(content_type, body.into(), REVALIDATE)
    }

    /// A file that depends on no other and is often fetched: clients cache it for an hour.
    pub(crate) fn cached_for_an_hour(content_type: &'static str, body: Bytes) -> Self {
        Self::with_caching(content_type, body, ONE_HOUR)
    }

    fn with_caching(content_type: &'static str, body: Bytes, cache_control: HeaderValue) -> Self {
        let hash = HEXLOWER.encode(&Sha256::digest(&body)[..16]);
        let gzip = OnceLock::new();
        Self(Arc::new(FileContent { content_type, cache_control, body, gzip, hash }))
    }

    /// The response for these request headers: the file in the accepted coding, or a 304.
    pub(crate) fn response(&self, request: &HeaderMap) -> Response {
        let file = &*self.0;
        let is_gzip = conditional::accepts_gzip(request);
        let tag = format!("\"{}{}\"", file.hash, if is_gzip { "-gzip" } else { "" });
        let mut response = Response::builder().content_type(file.content_type).finish();
        let fields = response.headers_mut();
        if let Ok(tag) = HeaderValue::try_from(tag) {
            fields.insert(header::ETAG, tag);
        }
        fields.insert(header::CACHE_CONTROL, file.cache_control.clone());
        fields.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        add_page_policy(fields);
        if conditional::is_not_modified(request.typed_get().as_ref(), fields) {
            response.set_status(StatusCode::NOT_MODIFIED);
        } else if is_gzip {
            fields.insert(header::CONTENT_ENCODING, headers::GZIP);
            response.set_body(Body::from(file.gzip.get_or_init(|| compressed(&file.body)).clone()));
        } else {
            response.set_body(file.body.clone());
        }
        response
    }
}

impl Endpoint for StaticFile {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        Ok(self.response(request.headers()))
    }
}

/// Adds the security headers of pages.
pub(crate) fn add_page_policy(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // No other site may steer a page that it has opened: opening one spends requests of the visitor's key.
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
}

fn compressed(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory can't fail.
    let written = encoder.write_all(body).and_then(|()| encoder.finish());
    written.unwrap_or_default().into()
}
