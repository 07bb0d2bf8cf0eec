//! Error responses. Each API has one error type, which maps a cause to status, code and message;
//! this file converts panics and the framework's errors to that type, and it to a response.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use poem::error::ResponseError;
use poem::http::{HeaderName, HeaderValue, StatusCode, header};
use poem::{Response, Result};
use serde::Serialize;
use thiserror::Error;

use super::headers;
use crate::server::InvalidHost;

/// Characters of a given value that an error message repeats.
const GIVEN_CHARS: usize = 64;

/// The error type of an API.
pub(crate) trait ErrorResponse:
    ResponseError + std::error::Error + From<InvalidParameter> + Send + Sync + 'static
{
    /// Nothing is served under the path.
    const UNKNOWN_ROUTE: Self;
    /// A bug, or a panic.
    const INTERNAL: Self;

    /// The path supports only the methods in `allow`.
    fn method_not_allowed(allow: String) -> Self;

    /// The machine-readable code.
    type Code: Serialize;

    /// Status and code of the response.
    fn status_and_code(&self) -> (StatusCode, Self::Code);

    /// The header that the responses of other errors lack.
    fn extra_header(&self) -> Option<(HeaderName, HeaderValue)>;

    /// The cause, which the log shows and the body does not.
    fn logged_cause(&self) -> Option<ErrorCause>;

    /// Fields of the body besides `error` and `code`.
    fn details(&self) -> impl Serialize {}
}

/// A parameter or field is missing or wrong. The text begins with its name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct InvalidParameter(pub(crate) String);

impl InvalidParameter {
    /// `name` must be given, as `allowed` says.
    pub(crate) fn missing(name: &str, allowed: &str) -> Self {
        Self(format!("{name} is required: {allowed}"))
    }

    /// `name` must be what `allowed` says, and `given` is not.
    pub(crate) fn new(name: &str, allowed: &str, given: &str) -> Self {
        Self(format!("{name} must be {allowed}; given: {}", shortened(given)))
    }
}

impl From<InvalidHost> for InvalidParameter {
    fn from(error: InvalidHost) -> Self {
        Self(error.to_string())
    }
}

impl ResponseError for InvalidParameter {
    fn status(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }
}

/// Data of an error response: the cause, which the log shows and the body must not.
#[derive(Debug, Clone)]
pub(crate) struct ErrorCause(pub(crate) Arc<dyn std::error::Error + Send + Sync>);

#[derive(Serialize)]
struct JsonError<'a, C, D> {
    error: &'a str,
    code: C,
    #[serde(flatten)]
    details: D,
}

/// The response for an API's own error.
pub(crate) fn error_response<E: ErrorResponse>(error: &E) -> Response {
    let (status, code) = error.status_and_code();
    let body = JsonError { error: &error.to_string(), code, details: error.details() };
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut response = Response::builder().status(status).body(body);
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, headers::JSON);
    fields.insert(header::CACHE_CONTROL, headers::NO_STORE);
    fields.extend(error.extra_header());
    if let Some(cause) = error.logged_cause() {
        response.set_data(cause);
    }
    response
}

/// The response for an error that the framework passes on. The framework's own conversion would
/// drop the cause of an API's error; its own errors mean an unknown route, or a bug.
fn framework_error_response<E: ErrorResponse>(error: poem::Error) -> Response {
    let error = match error.downcast::<E>() {
        Ok(error) => return error.as_response(),
        Err(error) => error,
    };
    let error = match error.downcast::<InvalidParameter>() {
        Ok(error) => error.into(),
        Err(error) if error.status() == StatusCode::NOT_FOUND => E::UNKNOWN_ROUTE,
        Err(error) => {
            tracing::error!(%error, "unexpected error of the HTTP framework");
            E::INTERNAL
        }
    };
    error.as_response()
}

/// The response of a handler; an error and a panic become responses too.
#[inline]
pub(crate) fn catch_errors<E: ErrorResponse>(
    handler: impl Future<Output = Result<Response>>,
) -> impl Future<Output = Response> {
    AssertUnwindSafe(handler).catch_unwind().map(|outcome| match outcome {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => framework_error_response::<E>(error),
        Err(_) => E::INTERNAL.as_response(),
    })
}

/// A given value in quotes, cut to 64 characters, with control characters escaped.
fn shortened(given: &str) -> String {
    let cut: String = given.chars().take(GIVEN_CHARS).collect();
    let ellipsis = if cut.len() < given.len() { "…" } else { "" };
    format!("{cut:?}{ellipsis}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_values_are_cut_to_64_characters() {
        assert_eq!(shortened("a\0\"b"), r#""a\0\"b""#);
        let long = "\u{1F9EC}".repeat(65);
        assert_eq!(shortened(&long), format!("\"{}\"…", "\u{1F9EC}".repeat(64)));
        assert_eq!(shortened(&"x".repeat(64)), format!("\"{}\"", "x".repeat(64)));
    }
}
