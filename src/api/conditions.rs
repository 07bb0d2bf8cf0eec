//! The last step of a successful response: the coding of its body, or a 304 without one.

use poem::Response;
use poem::http::{HeaderMap, StatusCode, header};
use poem::web::headers::{HeaderMapExt, IfNoneMatch};

use super::headers::success_headers;
use crate::cache::CacheReply;
use crate::http::conditional::{accepts_gzip, is_known};
use crate::http::headers::GZIP;
use crate::limit::Decision;

/// What the request says about the response it wants.
pub(super) struct Conditions {
    accepts_gzip: bool,
    known: Option<IfNoneMatch>,
}

impl Conditions {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self { accepts_gzip: accepts_gzip(headers), known: headers.typed_get() }
    }

    /// Turns what the cache returned into the complete response, or a 304 if the client has it.
    pub(super) fn apply(&self, response: &mut Response, served: &CacheReply, decision: &Decision) {
        let is_gzip = self.accepts_gzip && served.entry.is_compressible();
        let tag = served.entry.etag(is_gzip);
        *response.headers_mut() = success_headers(served, tag, decision);
        if is_known(self.known.as_ref(), response.headers()) {
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
