//! A finished answer, typed for the document: the bytes come out of the cache, the description
//! from the type.

use std::marker::PhantomData;

use poem::{IntoResponse, Response};
use poem_openapi::ApiResponse;
use poem_openapi::payload::Payload;
use poem_openapi::registry::{
    MetaHeader, MetaMediaType, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry,
};
use poem_openapi::types::Type;

use super::model::{ArenaInsights, Error, GenePage, GenePhenotype};
use crate::cache::CacheReply;

/// JSON bytes that are described by `T`.
pub(super) struct Finished<T>(CacheReply, PhantomData<T>);

impl<T: Type> Payload for Finished<T> {
    const CONTENT_TYPE: &'static str = "application/json";

    fn schema_ref() -> MetaSchemaRef {
        T::schema_ref()
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}

impl<T: Type> IntoResponse for Finished<T> {
    fn into_response(self) -> Response {
        let mut response = Response::builder().finish();
        // Bytes and headers are put in where it is known in which coding, if at all, it is wanted.
        response.set_data(self.0);
        response
    }
}

/// What every operation answers: `T`, or one of the documented errors.
pub(super) struct Reply<T>(Finished<T>);

impl<T> From<CacheReply> for Reply<T> {
    fn from(served: CacheReply) -> Self {
        Self(Finished(served, PhantomData))
    }
}

impl<T: Type> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

/// What a 200 answer consists of.
pub(super) trait Answer: Type {
    /// Whether `Link` leads from one answer to others.
    const IS_PAGE: bool = false;
}

impl Answer for GenePage {
    const IS_PAGE: bool = true;
}
impl Answer for GenePhenotype {}
impl Answer for ArenaInsights {}

impl<T: Answer> ApiResponse for Reply<T> {
    fn meta() -> MetaResponses {
        let answer = MetaMediaType {
            content_type: Finished::<T>::CONTENT_TYPE,
            schema: Finished::<T>::schema_ref(),
        };
        let links = if T::IS_PAGE { LINK_HEADERS } else { &[] };
        let mut ok = described(200, "The answer.", &[ANSWER_HEADERS, links, LIMIT_HEADERS]);
        ok.content = vec![answer];
        let unchanged = described(304, NOT_MODIFIED, &[ANSWER_HEADERS, LIMIT_HEADERS]);
        let mut responses = vec![ok, unchanged];
        responses.extend(ERRORS.iter().map(|error| MetaResponse {
            content: vec![MetaMediaType {
                content_type: "application/json",
                schema: Error::schema_ref(),
            }],
            ..described(error.status, error.description, error.headers)
        }));
        MetaResponses { responses }
    }

    fn register(registry: &mut Registry) {
        Finished::<T>::register(registry);
        Error::register(registry);
    }
}

struct DocumentedError {
    status: u16,
    description: &'static str,
    headers: &'static [&'static [Header]],
}

struct Header {
    name: &'static str,
    description: &'static str,
    schema: fn() -> MetaSchema,
}

const NOT_MODIFIED: &str =
    "Not modified: `If-None-Match` names the entity tag that this request would get.";

const ERRORS: &[DocumentedError] = &[
    DocumentedError {
        status: 400,
        description: "`INVALID_ID`: the path's id is no UUID. `MISSING_PARAM`: something is wrong in the query; `error` begins with the parameter's name and says what is allowed.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS],
    },
    DocumentedError {
        status: 401,
        description: "`UNAUTHORIZED`: no API key, or not a valid one with the scope `read`.",
        headers: &[ERROR_HEADERS, CHALLENGE_HEADERS],
    },
    DocumentedError {
        status: 404,
        description: "`NOT_FOUND`: no such gene, domain or route.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS],
    },
    DocumentedError {
        status: 405,
        description: "`METHOD_NOT_ALLOWED`: only GET is supported.",
        headers: &[ERROR_HEADERS, ALLOW_HEADERS],
    },
    DocumentedError {
        status: 429,
        description: "`RATE_LIMITED`: the key's limit of requests a minute is used up. Wait as many seconds as `Retry-After` says.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS, RETRY_HEADERS],
    },
    DocumentedError {
        status: 500,
        description: "`INTERNAL`: a fault of this service.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS],
    },
    DocumentedError {
        status: 502,
        description: "`DB_ERROR`: the registry's database cannot be read, and no answer that may still be sent is cached.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS],
    },
    DocumentedError {
        status: 503,
        description: "`UNAVAILABLE`: the service has too much to do, or cannot count requests. Try again after as many seconds as `Retry-After` says.",
        headers: &[ERROR_HEADERS, LIMIT_HEADERS, RETRY_HEADERS],
    },
];

const ANSWER_HEADERS: &[Header] = &[
    Header {
        name: "X-Request-Id",
        description: "Identifies the request in the service's log. Taken over from the request if it is 1 to 64 of `[A-Za-z0-9._-]`.",
        schema: text,
    },
    Header {
        name: "Cache-Control",
        description: "`private`, and for how long the answer may be kept, counted from its reading (see `Age`).",
        schema: text,
    },
    Header {
        name: "Age",
        description: "Seconds since the answer was read from the registry.",
        schema: count,
    },
    Header {
        name: "Cache-Status",
        description: "How the answer was come by (RFC 9211).",
        schema: text,
    },
    Header {
        name: "ETag",
        description: "Hash of the plain bytes; with the suffix `-gzip` for that coding.",
        schema: text,
    },
    Header { name: "Vary", description: "`X-API-Key, Accept-Encoding`", schema: text },
];

const LINK_HEADERS: &[Header] = &[Header {
    name: "Link",
    description: "The pages around this one, `next` and `prev` (RFC 8288), as references that consist of a query only. Absent where there are none.",
    schema: text,
}];

const ERROR_HEADERS: &[Header] = &[
    Header {
        name: "X-Request-Id",
        description: "Identifies the request in the service's log.",
        schema: text,
    },
    Header { name: "Cache-Control", description: "`no-store`", schema: text },
];

const LIMIT_HEADERS: &[Header] = &[
    Header {
        name: "RateLimit-Policy",
        description: "The key's limit `q` and its window `w` in seconds (draft-ietf-httpapi-ratelimit-headers).",
        schema: text,
    },
    Header {
        name: "RateLimit",
        description: "Requests that remain, `r`, and seconds until the window ends, `t`.",
        schema: text,
    },
    Header {
        name: "X-RateLimit-Limit",
        description: "The key's limit, in requests a minute.",
        schema: count,
    },
    Header {
        name: "X-RateLimit-Remaining",
        description: "Requests that remain in this window.",
        schema: count,
    },
    Header {
        name: "X-RateLimit-Reset",
        description: "Seconds until the window ends.",
        schema: count,
    },
];

const RETRY_HEADERS: &[Header] =
    &[Header { name: "Retry-After", description: "Whole seconds to wait, 1 to 60.", schema: wait }];

const CHALLENGE_HEADERS: &[Header] = &[Header {
    name: "WWW-Authenticate",
    description: "`ApiKey realm=\"gene-registry\"`",
    schema: text,
}];

const ALLOW_HEADERS: &[Header] = &[Header { name: "Allow", description: "`GET`", schema: text }];

fn text() -> MetaSchema {
    MetaSchema::new("string")
}

fn count() -> MetaSchema {
    integer(0, i32::MAX)
}

fn wait() -> MetaSchema {
    integer(1, 60)
}

fn integer(minimum: i32, maximum: i32) -> MetaSchema {
    MetaSchema {
        minimum: Some(minimum.into()),
        maximum: Some(maximum.into()),
        ..MetaSchema::new_with_format("integer", "int32")
    }
}

fn described(status: u16, description: &'static str, headers: &[&[Header]]) -> MetaResponse {
    let headers = headers.iter().copied().flatten().map(|header| MetaHeader {
        name: header.name.to_owned(),
        description: Some(header.description.to_owned()),
        required: false,
        deprecated: false,
        schema: MetaSchemaRef::Inline(Box::new((header.schema)())),
    });
    MetaResponse {
        description,
        status: Some(status),
        status_range: None,
        content: vec![],
        headers: headers.collect(),
    }
}
