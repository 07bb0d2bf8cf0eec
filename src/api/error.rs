//! The one place that maps a cause to status, code and body.

use std::sync::Arc;

use poem::error::ResponseError;
use poem::http::{HeaderName, HeaderValue, StatusCode, header};
use poem::{IntoResponse, Response};
use serde::Serialize;
use thiserror::Error;

use super::headers;
use crate::cache::ReadError;
use crate::keys::{AuthDenied, NotAuthenticated};
use crate::limit::{Decision, LimiterUnavailable};
use crate::upstream::UpstreamError;

/// Characters of what was given that an error repeats.
const GIVEN_CHARS: usize = 64;

/// Seconds after which an overload may be over.
pub(super) const OVERLOAD_SECONDS: u64 = 1;

/// The machine-readable codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, poem_openapi::Enum)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[oai(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// 400: the path's id is no UUID.
    InvalidId,
    /// 400: something is wrong in the query.
    MissingParam,
    /// 401: no valid API key.
    Unauthorized,
    /// 404: no such route, gene or domain.
    NotFound,
    /// 405: only GET is supported.
    MethodNotAllowed,
    /// 429: the key's limit is used up.
    RateLimited,
    /// 500: a fault of this service.
    Internal,
    /// 502: trouble with the registry's database.
    DbError,
    /// 503: the service sheds load, or cannot count requests.
    Unavailable,
}

/// Why a request is not answered as asked.
#[derive(Debug, Clone, Error)]
pub enum ApiError {
    /// Nothing is served under this path.
    #[error(
        "there is nothing under this path; the operations are GET /v1/genes, GET /v1/genes/{{id}}/phenotype and GET /v1/arena/insights"
    )]
    UnknownRoute,
    /// The path is served, but not with this method.
    #[error("only {allow} is supported here")]
    MethodNotAllowed {
        /// The value of the `Allow` header.
        allow: &'static str,
    },
    /// The caller may not be here. Callers don't learn why.
    #[error("a valid API key with the scope read is needed in the header X-API-Key")]
    Unauthorized(AuthDenied),
    /// The key's limit is used up.
    #[error("the limit of {} requests a minute is used up; try again in {} s", .0.limit, .0.retry_after_seconds())]
    RateLimited(Decision),
    /// The path's id is no UUID.
    #[error("id must be a UUID of 8-4-4-4-12 hexadecimal digits; given: {given}")]
    InvalidId {
        /// What was given, shortened.
        given: String,
    },
    /// Something is wrong in the query. The text begins with the parameter's name.
    #[error("{0}")]
    Parameter(String),
    /// The gene or domain does not exist.
    #[error("there is no such gene or domain")]
    NotFound,
    /// The registry can't be read.
    #[error("the registry's database cannot be read at the moment")]
    Database(Arc<UpstreamError>),
    /// A fault of this service.
    #[error("this service has a fault; it has been logged under this answer's X-Request-Id")]
    Internal,
    /// Too much to do, or no way to count.
    #[error("the service cannot take this request at the moment; try again")]
    Unavailable,
}

/// What the body must not say, for the log.
#[derive(Debug, Clone)]
pub(super) struct Cause(pub(super) Arc<dyn std::error::Error + Send + Sync>);

/// The body of every error.
#[derive(Debug, Serialize)]
struct Body<'a> {
    error: &'a str,
    code: ErrorCode,
}

impl ApiError {
    /// A problem with the query parameter `name`: what is allowed, and what was given.
    pub(super) fn parameter(name: &str, allowed: &str, given: &str) -> Self {
        Self::Parameter(format!("{name} must be {allowed}; given: {}", shortened(given)))
    }

    /// A problem with the path's id.
    pub(super) fn invalid_id(given: &str) -> Self {
        Self::InvalidId { given: shortened(given) }
    }

    const fn status_and_code(&self) -> (StatusCode, ErrorCode) {
        match self {
            Self::UnknownRoute | Self::NotFound => (StatusCode::NOT_FOUND, ErrorCode::NotFound),
            Self::MethodNotAllowed { .. } => {
                (StatusCode::METHOD_NOT_ALLOWED, ErrorCode::MethodNotAllowed)
            }
            Self::Unauthorized(_) => (StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized),
            Self::RateLimited(_) => (StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited),
            Self::InvalidId { .. } => (StatusCode::BAD_REQUEST, ErrorCode::InvalidId),
            Self::Parameter(_) => (StatusCode::BAD_REQUEST, ErrorCode::MissingParam),
            Self::Database(_) => (StatusCode::BAD_GATEWAY, ErrorCode::DbError),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable),
        }
    }

    fn extra_header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::MethodNotAllowed { allow } => {
                Some((header::ALLOW, HeaderValue::from_static(allow)))
            }
            Self::Unauthorized(_) => Some((header::WWW_AUTHENTICATE, headers::CHALLENGE)),
            Self::RateLimited(decision) => {
                Some((header::RETRY_AFTER, decision.retry_after_seconds().into()))
            }
            Self::Unavailable => Some((header::RETRY_AFTER, OVERLOAD_SECONDS.into())),
            _ => None,
        }
    }

    fn cause(&self) -> Option<Cause> {
        match self {
            Self::Database(error) => Some(Cause(Arc::clone(error) as _)),
            Self::Unauthorized(denial) => Some(Cause(Arc::new(*denial))),
            _ => None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        let message = self.to_string();
        let body = serde_json::to_vec(&Body { error: &message, code }).unwrap_or_default();
        let mut response = Response::builder().status(status).body(body);
        let fields = response.headers_mut();
        fields.insert(header::CONTENT_TYPE, headers::JSON);
        fields.insert(header::CACHE_CONTROL, headers::NO_STORE);
        fields.extend(self.extra_header());
        if let Some(cause) = self.cause() {
            response.set_data(cause);
        }
        response
    }
}

/// The answer for an error that came through the framework. Its own errors are all of one kind:
/// it knows no such route. (Ours are taken out first: its way of answering drops the cause.)
pub(super) fn refusal(error: poem::Error) -> Response {
    match error.downcast::<ApiError>() {
        Ok(error) => error.into_response(),
        Err(error) if error.status() == StatusCode::NOT_FOUND => {
            ApiError::UnknownRoute.into_response()
        }
        Err(error) => {
            tracing::error!(%error, "an error that nobody has mapped");
            ApiError::Internal.into_response()
        }
    }
}

impl ResponseError for ApiError {
    fn status(&self) -> StatusCode {
        self.status_and_code().0
    }

    fn as_response(&self) -> Response {
        self.clone().into_response()
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound => Self::NotFound,
            ReadError::Upstream(error) => Self::Database(error),
            ReadError::Overloaded => Self::Unavailable,
            ReadError::Crashed(_) => Self::Internal,
        }
    }
}

impl From<NotAuthenticated> for ApiError {
    fn from(error: NotAuthenticated) -> Self {
        match error {
            NotAuthenticated::Denied(denial) => Self::Unauthorized(denial),
            NotAuthenticated::Unavailable(error) => Self::Database(error),
            NotAuthenticated::TooManyUnknown => Self::Unavailable,
            NotAuthenticated::TaskPanicked(_) => Self::Internal,
        }
    }
}

impl From<LimiterUnavailable> for ApiError {
    fn from(_: LimiterUnavailable) -> Self {
        Self::Unavailable
    }
}

/// What was given, in quotes, cut to 64 characters, control characters escaped.
fn shortened(given: &str) -> String {
    let cut: String = given.chars().take(GIVEN_CHARS).collect();
    let mark = if cut.len() < given.len() { "…" } else { "" };
    format!("{cut:?}{mark}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_cut_to_64_characters() {
        assert_eq!(shortened("a\0\"b"), r#""a\0\"b""#);
        let long = "\u{1F9EC}".repeat(65);
        assert_eq!(shortened(&long), format!("\"{}\"…", "\u{1F9EC}".repeat(64)));
        assert_eq!(shortened(&"x".repeat(64)), format!("\"{}\"", "x".repeat(64)));
    }

    #[test]
    fn codes_are_written_as_the_contract_has_them() {
        let codes = [
            (ErrorCode::InvalidId, "INVALID_ID"),
            (ErrorCode::MissingParam, "MISSING_PARAM"),
            (ErrorCode::Unauthorized, "UNAUTHORIZED"),
            (ErrorCode::NotFound, "NOT_FOUND"),
            (ErrorCode::MethodNotAllowed, "METHOD_NOT_ALLOWED"),
            (ErrorCode::RateLimited, "RATE_LIMITED"),
            (ErrorCode::Internal, "INTERNAL"),
            (ErrorCode::DbError, "DB_ERROR"),
            (ErrorCode::Unavailable, "UNAVAILABLE"),
        ];
        for (code, text) in codes {
            assert_eq!(serde_json::to_value(code).expect("json"), text);
        }
    }

    #[tokio::test]
    async fn database_trouble_says_nothing_about_the_database() {
        let inner = std::io::Error::other("connect to db.internal:5432 as reader failed");
        let error = ApiError::Database(Arc::new(UpstreamError::Unreachable(Box::new(inner))));
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
        let body = response.into_body().into_string().await.expect("a body");
        assert_eq!(
            body,
            r#"{"error":"the registry's database cannot be read at the moment","code":"DB_ERROR"}"#
        );
    }
}
