//! Answers, typed for the document.

use std::marker::PhantomData;

use poem::http::{HeaderMap, HeaderValue, StatusCode, header};
use poem::{IntoResponse, Response};
use poem_openapi::ApiResponse;
use poem_openapi::registry::{
    MetaHeader, MetaMediaType, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry,
};
use poem_openapi::types::Type;
use serde::Serialize;

use super::error::ControlError;
use super::model::ErrorBody;

const JSON: &str = "application/json";

/// What every answer carries: it is for the caller alone.
pub(super) fn add_headers(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// JSON that the document describes by `T`.
pub(super) struct Reply<T>(Vec<u8>, PhantomData<T>);

/// What an answer consists of, and the statuses of what can come instead.
pub(super) trait Answer: Type {
    const STATUS: u16 = 200;
    const DESCRIPTION: &'static str;
    const ERRORS: &'static [u16];
}

impl<T> Reply<T> {
    /// The answer with this value.
    pub(super) fn new(value: &impl Serialize) -> Result<Self, ControlError> {
        let json = serde_json::to_vec(value).map_err(|error| {
            tracing::error!(%error, "an answer that is no JSON");
            ControlError::Internal
        })?;
        Ok(Self(json, PhantomData))
    }
}

impl<T: Answer> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(T::STATUS).unwrap_or_default();
        let mut response = Response::builder().status(status).body(self.0);
        add_headers(response.headers_mut());
        response
    }
}

impl<T: Answer> ApiResponse for Reply<T> {
    fn meta() -> MetaResponses {
        let mut responses = vec![described(T::STATUS, T::DESCRIPTION, T::schema_ref())];
        let errors = ERRORS.iter().filter(|(status, _)| T::ERRORS.contains(status));
        responses
            .extend(errors.map(|(status, text)| described(*status, text, ErrorBody::schema_ref())));
        MetaResponses { responses }
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
        ErrorBody::register(registry);
    }
}

const ERRORS: &[(u16, &str)] = &[
    (
        400,
        "`MISSING_PARAM`: something is wrong in the query or the body; `error` begins with its name and says what is allowed. `INVALID_PREFIX`: not the beginning of a key. What was given is not repeated.",
    ),
    (
        401,
        "`UNAUTHORIZED`: no token, or not a valid one. With `WWW-Authenticate: Bearer` (RFC 6750).",
    ),
    (403, "`FORBIDDEN`: everybody's keys are for operators alone."),
    (404, "`NOT_FOUND`: no such key; also where it is somebody else's."),
    (405, "`METHOD_NOT_ALLOWED`: see `Allow`."),
    (
        409,
        "`AMBIGUOUS`: several keys begin like that, `candidates` among them; nothing was done. `ALREADY_ROTATED`: it was rotated before, and its `successor` is good. `NOT_ACTIVE`: the key has ended or was revoked.",
    ),
    (415, "`UNSUPPORTED_MEDIA_TYPE`: the body must be sent as `application/json`."),
    (429, "`RATE_LIMITED`: too many wrong tokens came from this address; see `Retry-After`."),
    (500, "`INTERNAL`: a fault of this service."),
    (502, "`DB_ERROR`: the database of the keys cannot be used."),
    (
        503,
        "`KEYS_READ_ONLY`: there is no role to write keys with; `error` says what the operator has to do. `ISSUER_UNAVAILABLE`: the issuer's keys cannot be had; see `Retry-After`.",
    ),
];

fn described(status: u16, description: &'static str, schema: MetaSchemaRef) -> MetaResponse {
    let header = |name: &str, text: &str| MetaHeader {
        name: name.to_owned(),
        description: Some(text.to_owned()),
        required: false,
        deprecated: false,
        schema: MetaSchemaRef::Inline(Box::new(MetaSchema::new("string"))),
    };
    MetaResponse {
        description,
        status: Some(status),
        status_range: None,
        content: vec![MetaMediaType { content_type: JSON, schema }],
        headers: vec![
            header("X-Request-Id", "Identifies the request in the service's log."),
            header("Cache-Control", "`no-store`"),
        ],
    }
}
