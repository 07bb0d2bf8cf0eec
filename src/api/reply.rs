//! The responses of the operations and their description. Body and headers are added by
//! [`super::access_control`], which knows the accepted coding and the rate limit.

use poem::{IntoResponse, Response};
use poem_openapi::registry::{MetaResponse, MetaSchema};
use poem_openapi::types::Type;

use super::model::{ArenaInsights, ErrorBody, GenePage, GenePhenotype};
use crate::cache::CacheReply;
use crate::http::document::{DocumentedHeader, integer, response, text};
use crate::http::reply::{Reply, ReplyKind};

/// The reply of an operation whose JSON is described by `T`.
pub(super) type ReadReply<T> = Reply<UnfinishedReply, T>;

/// A cached result. Its response carries it as data, without body and headers.
pub(super) struct UnfinishedReply(pub(super) CacheReply);

impl IntoResponse for UnfinishedReply {
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
}

impl ReadResult for GenePage {
    const LINKS: &'static [DocumentedHeader] = LINK_HEADERS;
}
impl ReadResult for GenePhenotype {}
impl ReadResult for ArenaInsights {}

impl<T: ReadResult> ReplyKind<T> for UnfinishedReply {
    type Error = ErrorBody;

    fn responses() -> Vec<MetaResponse> {
        let ok_headers: &[&[_]] = &[READ_HEADERS, T::LINKS, LIMIT_HEADERS];
        let ok = response(200, "The result.", Some(T::schema_ref()), ok_headers);
        let not_modified = response(304, NOT_MODIFIED, None, &[READ_HEADERS, LIMIT_HEADERS]);
        let errors = ERRORS.iter().map(|error| {
            response(error.status, error.description, Some(ErrorBody::schema_ref()), error.headers)
        });
        [ok, not_modified].into_iter().chain(errors).collect()
    }
}

struct DocumentedError {
    status: u16,
    description: &'static str,
    headers: &'static [&'static [DocumentedHeader]],
}

const NOT_MODIFIED: &str = "Not modified: `If-None-Match` names the current entity tag.";

const ERRORS: &[DocumentedError] = &[
    DocumentedError {
        status: 400,
        description: "`INVALID_ID`: the id in the path is not a UUID. `MISSING_PARAM`: a query parameter is missing or wrong; `error` begins with its name and says what is allowed.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS],
    },
    DocumentedError {
        status: 401,
        description: "`UNAUTHORIZED`: the request has no valid API key with the scope `read`.",
        headers: &[ERROR_HEADERS, CHALLENGE_HEADERS],
    },
    DocumentedError {
        status: 404,
        description: "`NOT_FOUND`: the gene, domain or route does not exist.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS],
    },
    DocumentedError {
        status: 405,
        description: "`METHOD_NOT_ALLOWED`: only GET is supported.",
        headers: &[ERROR_HEADERS, ALLOW_HEADERS],
    },
    DocumentedError {
        status: 429,
        description: "`RATE_LIMITED`: the key's requests of this minute are used up. Wait for the seconds in `Retry-After`.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS, RETRY_HEADERS],
    },
    DocumentedError {
        status: 500,
        description: "`INTERNAL`: an internal error of this service.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS],
    },
    DocumentedError {
        status: 502,
        description: "`DB_ERROR`: the registry's database cannot be read, and no usable result is cached.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS],
    },
    DocumentedError {
        status: 503,
        description: "`UNAVAILABLE`: the service is overloaded, or cannot count requests. Try again after the seconds in `Retry-After`.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS, RETRY_HEADERS],
    },
];

const READ_HEADERS: &[DocumentedHeader] = &[
    DocumentedHeader {
        name: "X-Request-Id",
        description: "Identifies the request in the service's log. The request's own header is kept if it is 1 to 64 characters of `[A-Za-z0-9._-]`.",
        schema: text,
    },
    DocumentedHeader {
        name: "Cache-Control",
        description: "`private`, and how long the response may be cached, in seconds since the registry was read (see `Age`).",
        schema: text,
    },
    DocumentedHeader {
        name: "Age",
        description: "Seconds since the registry was read.",
        schema: count,
    },
    DocumentedHeader {
        name: "Cache-Status",
        description: "How the caches handled the request (RFC 9211).",
        schema: text,
    },
    DocumentedHeader {
        name: "ETag",
        description: "Hash of the uncompressed body; with the suffix `-gzip` for a compressed response.",
        schema: text,
    },
    DocumentedHeader { name: "Vary", description: "`X-API-Key, Accept-Encoding`", schema: text },
];

const LINK_HEADERS: &[DocumentedHeader] = &[DocumentedHeader {
    name: "Link",
    description: "The next and previous page, `next` and `prev` (RFC 8288), as relative references that consist of a query only. Absent if neither exists.",
    schema: text,
}];

const ERROR_HEADERS: &[DocumentedHeader] = &[
    DocumentedHeader {
        name: "X-Request-Id",
        description: "Identifies the request in the service's log.",
        schema: text,
    },
    DocumentedHeader { name: "Cache-Control", description: "`no-store`", schema: text },
];

const LIMIT_HEADERS: &[DocumentedHeader] = &[
    DocumentedHeader {
        name: "RateLimit-Policy",
        description: "The key's limit `q` and its window `w` in seconds (draft-ietf-httpapi-ratelimit-headers).",
        schema: text,
    },
    DocumentedHeader {
        name: "RateLimit",
        description: "Remaining requests `r`, and seconds `t` until the window ends.",
        schema: text,
    },
    DocumentedHeader {
        name: "X-RateLimit-Limit",
        description: "The key's limit, in requests a minute.",
        schema: count,
    },
    DocumentedHeader {
        name: "X-RateLimit-Remaining",
        description: "Remaining requests in this window.",
        schema: count,
    },
    DocumentedHeader {
        name: "X-RateLimit-Reset",
        description: "Seconds until the window ends.",
        schema: count,
    },
];

const RETRY_HEADERS: &[DocumentedHeader] = &[DocumentedHeader {
    name: "Retry-After",
    description: "Whole seconds to wait, 1 to 60.",
    schema: wait,
}];

const CHALLENGE_HEADERS: &[DocumentedHeader] = &[DocumentedHeader {
    name: "WWW-Authenticate",
    description: "`ApiKey realm=\"gene-registry\"`",
    schema: text,
}];

const ALLOW_HEADERS: &[DocumentedHeader] =
    &[DocumentedHeader { name: "Allow", description: "`GET`", schema: text }];

fn count() -> MetaSchema {
    integer(0, i32::MAX)
}

fn wait() -> MetaSchema {
    integer(1, 60)
}
