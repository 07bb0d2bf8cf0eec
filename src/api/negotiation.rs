//! Completes a successful response: headers, and the body in the accepted coding, or a 304.

use poem::Response;
use poem::http::{HeaderMap, StatusCode, header};
use poem::web::headers::{HeaderMapExt, IfNoneMatch};

use super::headers::success_headers;
use crate::cache::CacheReply;
use crate::http::conditional::{accepts_gzip, is_not_modified};
use crate::http::headers::GZIP;
use crate::limit::Decision;

/// The headers of a request that decide the coding and status of a successful response.
pub(super) struct Negotiation {
    accepts_gzip: bool,
    if_none_match: Option<IfNoneMatch>,
}

impl Negotiation {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let is_conditional = headers.contains_key(header::IF_NONE_MATCH);
        let if_none_match = if is_conditional { headers.typed_get() } else { None };
        Self { accepts_gzip: accepts_gzip(headers), if_none_match }
    }

    /// Adds the cached result and all headers, or makes the response a 304 if the client has it.
    pub(super) fn complete(
        &self,
        response: &mut Response,
        served: &CacheReply,
        decision: &Decision,
    ) {
        let is_gzip = self.accepts_gzip && served.entry.is_compressible();
        let tag = served.entry.etag(is_gzip);
        *response.headers_mut() = success_headers(served, tag, decision);
        if is_not_modified(self.if_none_match.as_ref(), response.headers()) {
            response.set_status(StatusCode::NOT_MODIFIED);
            response.headers_mut().remove(header::CONTENT_TYPE);
        } else if is_gzip {
            response.set_body(served.entry.gzip());
            response.headers_mut().insert(header::CONTENT_ENCODING, GZIP);
        } else {
            response.set_body(served.entry.body.clone());
        }
    }
}
