//! The responses of the control API's operations and their description.

use std::marker::PhantomData;

use bytes::Bytes;
use poem::http::StatusCode;
use poem::{IntoResponse, Response};
use poem_openapi::ApiResponse;
use poem_openapi::registry::{MetaResponses, MetaSchema, Registry};
use poem_openapi::types::Type;
use serde::Serialize;

use super::error::ControlApiError;
use super::headers::add_headers;
use super::model::{ApiKey, ApiKeyPage, CreatedApiKey, ErrorBody, Login, RotatedApiKey, WhoAmI};
use crate::http::document::{DocumentedHeader, UNCACHED_HEADERS, header, integer, response, text};

/// The reply of an operation: JSON that is described by `T`.
pub(super) struct JsonReply<T>(Bytes, PhantomData<T>);

/// Bytes, and what is held until they have been sent or discarded.
struct Held<H>(Vec<u8>, H);

impl<H> AsRef<[u8]> for Held<H> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<T: ControlReply> IntoResponse for JsonReply<T> {
    fn into_response(self) -> Response {
        let mut response = Response::builder().status(T::STATUS).body(self.0);
        add_headers(response.headers_mut());
        response
    }
}

/// The type of a successful body: its status, and the statuses of possible errors.
pub(super) trait ControlReply: Type {
    const STATUS: StatusCode = StatusCode::OK;
    const DESCRIPTION: &'static str;
    const ERRORS: &'static [u16];
}

/// The reply with `value`, which the document describes as `T`.
///
/// # Errors
/// The value cannot be written as JSON, which is a bug.
pub(super) fn reply<T: ControlReply>(
    value: &impl Serialize,
) -> Result<JsonReply<T>, ControlApiError> {
    reply_holding(value, ())
}

/// As [`reply`]; `held` is dropped once the response has been sent or discarded.
pub(super) fn reply_holding<T: ControlReply>(
    value: &impl Serialize,
    held: impl Send + 'static,
) -> Result<JsonReply<T>, ControlApiError> {
    let json = serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "cannot write a response as JSON");
        ControlApiError::Internal
    })?;
    Ok(JsonReply(Bytes::from_owner(Held(json, held)), PhantomData))
}

impl<T: ControlReply> ApiResponse for JsonReply<T> {
    fn meta() -> MetaResponses {
        let status = T::STATUS.as_u16();
        let headers: &[&[_]] = &[UNCACHED_HEADERS, VARY_HEADERS];
        let success = response(status, T::DESCRIPTION, Some(T::schema_ref()), headers);
        let errors = ERRORS.iter().filter(|(status, _)| T::ERRORS.contains(status));
        let errors = errors.map(|(status, description)| {
            let schema = Some(ErrorBody::schema_ref());
            let headers = &[UNCACHED_HEADERS, VARY_HEADERS, headers_of(*status)];
            response(*status, description, schema, headers)
        });
        MetaResponses { responses: [success].into_iter().chain(errors).collect() }
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
        ErrorBody::register(registry);
    }
}

const VARY_HEADERS: &[DocumentedHeader] = &[header("Vary", "`Authorization`", text)];

const CHALLENGE_HEADERS: &[DocumentedHeader] =
    &[header("WWW-Authenticate", "`Bearer`, with parameters (RFC 6750).", text)];
const ALLOW_HEADERS: &[DocumentedHeader] =
    &[header("Allow", "The methods that the path supports.", text)];
const LIMITED_HEADERS: &[DocumentedHeader] =
    &[header("Retry-After", "Whole seconds to wait.", wait)];
const RETRY_HEADERS: &[DocumentedHeader] =
    &[header("Retry-After", "Whole seconds to wait; absent with `KEYS_READ_ONLY`.", wait)];

/// The headers that only errors with this status have.
const fn headers_of(status: u16) -> &'static [DocumentedHeader] {
    match status {
        401 => CHALLENGE_HEADERS,
        405 => ALLOW_HEADERS,
        429 => LIMITED_HEADERS,
        503 => RETRY_HEADERS,
        _ => &[],
    }
}

fn wait() -> MetaSchema {
    integer(1, 60)
}

const ERRORS: &[(u16, &str)] = &[
    (
        400,
        "`MISSING_PARAM`: a query parameter or a field of the body is missing or wrong; `error` begins with its name and says what is allowed. Also if the body has more than 16,384 bytes or is not complete within 10 s, or if `Host` is missing or wrong. `INVALID_PREFIX`: the prefix is not the beginning of a key.",
    ),
    (401, "`UNAUTHORIZED`: the request has no valid token."),
    (
        403,
        "`FORBIDDEN`: only operators may see or change everybody's keys. `LIMIT_EXCEEDED`: a limit of users is exceeded; `error` names the limit, its value and the value in the request.",
    ),
    (404, "`NOT_FOUND`: the key does not exist, or belongs to somebody else."),
    (405, "`METHOD_NOT_ALLOWED`: use a method of the header `Allow`."),
    (
        409,
        "`AMBIGUOUS`: several keys begin with the prefix, among them `candidates`; nothing was changed. `ALREADY_ROTATED`: the key was already rotated, and its `successor` is active. `NOT_ACTIVE`: the key has expired or was revoked.",
    ),
    (415, "`UNSUPPORTED_MEDIA_TYPE`: the body must be sent as `application/json`."),
    (
        429,
        "`RATE_LIMITED`: too many invalid tokens came from this address. Wait for the seconds in `Retry-After`.",
    ),
    (500, "`INTERNAL`: an internal error of this service."),
    (502, "`DB_ERROR`: the database of the keys is unavailable."),
    (
        503,
        "`KEYS_READ_ONLY`: keys cannot be written; `error` says what the operator has to do. `ISSUER_UNAVAILABLE`: the issuer's signing keys are unavailable; `UNAVAILABLE`: too many calls of the caller, or of all users, are in progress. Wait for the seconds in `Retry-After`.",
    ),
];

impl ControlReply for Login {
    const DESCRIPTION: &'static str = "How to log in.";
    const ERRORS: &'static [u16] = &[400, 405, 500];
}

impl ControlReply for WhoAmI {
    const DESCRIPTION: &'static str = "The caller.";
    const ERRORS: &'static [u16] = &[400, 401, 405, 429, 500, 503];
}

impl ControlReply for ApiKeyPage {
    const DESCRIPTION: &'static str = "The keys.";
    const ERRORS: &'static [u16] = &[400, 401, 403, 405, 429, 500, 502, 503];
}

impl ControlReply for CreatedApiKey {
    const STATUS: StatusCode = StatusCode::CREATED;
    const DESCRIPTION: &'static str = "The new key.";
    const ERRORS: &'static [u16] = &[400, 401, 403, 405, 415, 429, 500, 502, 503];
}

impl ControlReply for ApiKey {
    const DESCRIPTION: &'static str = "The key as it is now.";
    const ERRORS: &'static [u16] = &[400, 401, 403, 404, 405, 409, 415, 429, 500, 502, 503];
}

impl ControlReply for RotatedApiKey {
    const STATUS: StatusCode = StatusCode::CREATED;
    const DESCRIPTION: &'static str = "The new key, and the one it replaces.";
    const ERRORS: &'static [u16] = &[400, 401, 403, 404, 405, 409, 415, 429, 500, 502, 503];
}
