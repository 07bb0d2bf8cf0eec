//! The responses of the operations and their description. Body and headers are added by
//! [`super::access_control`], which knows the accepted coding and the rate limit.

use std::marker::PhantomData;

use poem::{IntoResponse, Response};
use poem_openapi::ApiResponse;
use poem_openapi::registry::{MetaResponses, MetaSchema, Registry};
use poem_openapi::types::Type;

use super::model::{ArenaInsights, ErrorBody, GenePage, GenePhenotype};
use crate::cache::CacheReply;
use crate::http::document::{DocumentedHeader, UNCACHED_HEADERS, header, integer, response, text};

/// The reply of an operation whose JSON is described by `T`: a cached result. Its response carries
/// it as data, without body and headers.
pub(super) struct ReadReply<T>(CacheReply, PhantomData<T>);

impl<T> ReadReply<T> {
    pub(super) const fn new(served: CacheReply) -> Self {
        Self(served, PhantomData)
    }
}

impl<T: Send> IntoResponse for ReadReply<T> {
    fn into_response(self) -> Response {
        let mut response = Response::builder().finish();
        response.set_data(self.0);
        response
    }
}

/// The type of a successful body.
pub(super) trait ReadResult: Type {
    /// The headers that lead to other pages.
    const LINKS: &'static [DocumentedHeader] = &[];
    /// What the status 404 means.
    const NOT_FOUND: &'static str;
    /// What the status 400 means.
    const BAD_REQUEST: &'static str = "`MISSING_PARAM`: a query parameter is missing or wrong; `error` begins with its name and says what is allowed. Also if the URL is too long, or `Host` is missing or wrong.";
}

impl ReadResult for GenePage {
    const LINKS: &'static [DocumentedHeader] = LINK_HEADERS;
    // Clients of version 1.0 were generated with this status.
    const NOT_FOUND: &'static str = "Not used: a search without matches is 200 with an empty page.";
}
impl ReadResult for GenePhenotype {
    const NOT_FOUND: &'static str = "`NOT_FOUND`: the gene does not exist, or no longer does.";
    const BAD_REQUEST: &'static str = "`INVALID_ID`: the id in the path is not a UUID. `MISSING_PARAM`: the URL is too long, or `Host` is missing or wrong.";
}
impl ReadResult for ArenaInsights {
    const NOT_FOUND: &'static str = "`NOT_FOUND`: the domain has no genes.";
}

impl<T: ReadResult> ApiResponse for ReadReply<T> {
    fn meta() -> MetaResponses {
        let ok_headers: &[&[_]] = &[READ_HEADERS, T::LINKS, LIMIT_HEADERS];
        let ok = response(200, "The result.", Some(T::schema_ref()), ok_headers);
        let not_modified = response(304, NOT_MODIFIED, None, ok_headers);
        let errors = [(400, T::BAD_REQUEST), (404, T::NOT_FOUND)].into_iter().chain(ERRORS);
        let errors = errors.map(|(status, description)| {
            let schema = Some(ErrorBody::schema_ref());
            response(status, description, schema, error_headers(status))
        });
        MetaResponses { responses: [ok, not_modified].into_iter().chain(errors).collect() }
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
        ErrorBody::register(registry);
    }
}

const NOT_MODIFIED: &str = "Not modified: `If-None-Match` names the current entity tag.";

const ERRORS: [(u16, &str); 6] = [
    (401, "`UNAUTHORIZED`: the request has no valid API key with the scope `read`."),
    (405, "`METHOD_NOT_ALLOWED`: only GET is supported."),
    (
        429,
        "`RATE_LIMITED`: the key has used up its requests of this minute. Wait for the seconds in `Retry-After`. A key with the limit 0 is never accepted.",
    ),
    (500, "`INTERNAL`: an internal error of this service."),
    (502, "`DB_ERROR`: the registry's database cannot be read, and no usable result is cached."),
    (
        503,
        "`UNAVAILABLE`: the service is overloaded, or cannot count requests. Wait for the seconds in `Retry-After`.",
    ),
];

const fn error_headers(status: u16) -> &'static [&'static [DocumentedHeader]] {
    match status {
        401 => &[UNCACHED_HEADERS, VARY_HEADERS, CHALLENGE_HEADERS],
        405 => &[UNCACHED_HEADERS, ALLOW_HEADERS],
        429 | 503 => &[UNCACHED_HEADERS, VARY_HEADERS, LIMIT_HEADERS, RETRY_HEADERS],
        _ => &[UNCACHED_HEADERS, VARY_HEADERS, LIMIT_HEADERS],
    }
}

const READ_HEADERS: &[DocumentedHeader] = &[
    header(
        "X-Request-Id",
        "Identifies the request in the service's log. The request's own header is kept if it is 1 to 64 characters of `[A-Za-z0-9._-]`.",
        text,
    ),
    header(
        "Cache-Control",
        "`private`, and how long the response may be cached, in seconds since the registry was read (see `Age`).",
        text,
    ),
    header("Age", "Seconds since the registry was read.", count),
    header("Cache-Status", "How the caches handled the request (RFC 9211).", text),
    header(
        "ETag",
        "Hash of the uncompressed body; with the suffix `-gzip` for a compressed response.",
        text,
    ),
    VARY,
];

const VARY: DocumentedHeader = header("Vary", "`X-API-Key, Accept-Encoding`", text);
const VARY_HEADERS: &[DocumentedHeader] = &[VARY];

const LINK_HEADERS: &[DocumentedHeader] = &[header(
    "Link",
    "The next and previous page, `next` and `prev` (RFC 8288), as relative references that consist of a query only. Absent if neither exists.",
    text,
)];

const LIMIT_HEADERS: &[DocumentedHeader] = &[
    header(
        "RateLimit-Policy",
        "The key's limit `q` and its window `w` in seconds (draft-ietf-httpapi-ratelimit-headers). Like the other headers of the limit, it is absent if the key was not checked.",
        text,
    ),
    header("RateLimit", "Remaining requests `r`, and seconds `t` until the window ends.", text),
    header("X-RateLimit-Limit", "The key's limit, in requests a minute.", count),
    header("X-RateLimit-Remaining", "Remaining requests in this window.", count),
    header("X-RateLimit-Reset", "Seconds until the window ends.", count),
];

const RETRY_HEADERS: &[DocumentedHeader] =
    &[header("Retry-After", "Whole seconds to wait, 1 to 60.", wait)];

const CHALLENGE_HEADERS: &[DocumentedHeader] =
    &[header("WWW-Authenticate", "`ApiKey realm=\"gene-registry\"`", text)];

const ALLOW_HEADERS: &[DocumentedHeader] = &[header("Allow", "`GET`", text)];

fn count() -> MetaSchema {
    integer(0, i32::MAX.unsigned_abs())
}

fn wait() -> MetaSchema {
    integer(1, 60)
}
