//! Files that never change while the process runs.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use poem::http::{HeaderMap, HeaderValue, StatusCode, header};
use poem::{Endpoint, Request, Response, Result};
use sha2::{Digest, Sha256};

use crate::api::conditional;

/// Browsers ask each time whether it is still the same: all of a page is of one version.
const ASK_EACH_TIME: HeaderValue = HeaderValue::from_static("public, no-cache");
const HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// One such file, in both codings.
#[derive(Clone)]
pub(crate) struct StaticFile(Arc<File>);

struct File {
    content_type: &'static str,
    caching: HeaderValue,
    body: Bytes,
    /// Compressed once, on first need.
    gzip: OnceLock<Bytes>,
    tag: String,
}

impl StaticFile {
    /// A part of a page.
    pub(crate) fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::kept(content_type, body.into(), ASK_EACH_TIME)
    }

    /// What stands for itself, and is asked for often.
    pub(crate) fn kept_for_an_hour(content_type: &'static str, body: Bytes) -> Self {
        Self::kept(content_type, body, HOUR)
    }

    fn kept(content_type: &'static str, body: Bytes, caching: HeaderValue) -> Self {
        let digest = Sha256::digest(&body);
        let tag = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self(Arc::new(File { content_type, caching, body, gzip: OnceLock::new(), tag }))
    }
}

impl File {
    fn answer(&self, request: &HeaderMap) -> Response {
        let is_gzip = conditional::accepts_gzip(request);
        let tag = format!("\"{}{}\"", self.tag, if is_gzip { "-gzip" } else { "" });
        let mut known = request.get_all(header::IF_NONE_MATCH).iter();
        let mut response = if known.any(|list| conditional::matches(list.as_bytes(), &tag)) {
            Response::builder().status(StatusCode::NOT_MODIFIED).finish()
        } else if is_gzip {
            let body = self.gzip.get_or_init(|| compressed(&self.body)).clone();
            Response::builder().header(header::CONTENT_ENCODING, "gzip").body(body)
        } else {
            Response::builder().body(self.body.clone())
        };
        let headers = response.headers_mut();
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CACHE_CONTROL, self.caching.clone());
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        super::add_policy(headers);
        response
    }
}

impl StaticFile {
    /// The file in the coding asked for, or that whoever asks has it.
    pub(super) fn answer(&self, request: &HeaderMap) -> Response {
        self.0.answer(request)
    }
}

impl Endpoint for StaticFile {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        super::get_or_head(&request)?;
        Ok(self.answer(request.headers()))
    }
}

fn compressed(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory can't fail.
    let written = encoder.write_all(body).and_then(|()| encoder.finish());
    written.unwrap_or_default().into()
}
