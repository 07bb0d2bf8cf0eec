//! Errors of the public API: the only file that maps a cause to status, code and message.

use std::sync::Arc;

use poem::Response;
use poem::error::ResponseError;
use poem::http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use thiserror::Error;

use crate::cache::ReadError;
use crate::http::error::{ErrorCause, ErrorResponse, InvalidParameter, error_response};
use crate::keys::{AuthDenied, NotAuthenticated};
use crate::limit::Decision;
use crate::upstream::UpstreamError;

const CHALLENGE: HeaderValue = HeaderValue::from_static(r#"ApiKey realm="gene-registry""#);

/// Seconds for which clients should wait before they retry a request to an overloaded service.
pub(super) const OVERLOAD_SECONDS: u64 = 1;

/// The machine-readable codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, poem_openapi::Enum)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[oai(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// 400: the id in the path is not a UUID.
    InvalidId,
    /// 400: a query parameter is missing or wrong.
    MissingParam,
    /// 401: no valid API key.
    Unauthorized,
    /// 404: no such route, gene or domain.
    NotFound,
    /// 405: only GET is supported.
    MethodNotAllowed,
    /// 429: the key's limit is used up.
    RateLimited,
    /// 500: an internal error of this service.
    Internal,
    /// 502: the registry's database cannot be read.
    DbError,
    /// 503: the service is overloaded, or cannot count requests.
    Unavailable,
}

/// Why a request failed.
#[derive(Debug, Clone, Error)]
pub(crate) enum ApiError {
    /// Nothing is served under this path.
    #[error(
        "nothing is served under this path; the operations are GET /v1/genes, GET /v1/genes/{{id}}/phenotype and GET /v1/arena/insights"
    )]
    UnknownRoute,
    /// The path exists, but not with this method.
    #[error("this path does not support the method; use {allow}")]
    MethodNotAllowed {
        /// The value of the `Allow` header.
        allow: String,
    },
    /// There is no valid API key. The response does not say why.
    #[error("no valid API key; send one with the scope read in the header X-API-Key")]
    Unauthorized(AuthDenied),
    /// The key's limit is used up.
    #[error("{}", limit_text(.0))]
    RateLimited(Decision),
    /// The id in the path is not a UUID.
    #[error(transparent)]
    InvalidId(InvalidParameter),
    /// A query parameter is missing or wrong. The text begins with its name.
    #[error(transparent)]
    Parameter(#[from] InvalidParameter),
    /// The gene or domain does not exist.
    #[error("no such gene or domain; GET /v1/genes lists those that exist")]
    NotFound,
    /// The registry's database cannot be read.
    #[error("the registry's database is unavailable; try again later")]
    Database(Arc<UpstreamError>),
    /// A bug or a panic of this service.
    #[error(
        "internal error of this service; report the X-Request-Id of this response, which is in the log"
    )]
    Internal,
    /// The service is overloaded, or cannot count requests.
    #[error(
        "the service is overloaded, or cannot count requests; try again in {OVERLOAD_SECONDS} s"
    )]
    Unavailable(Overload),
}

/// Why a request got 503. Callers get the same response for all reasons; the log has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Overload {
    /// The cache sheds reads, or the database answers, but not in time.
    #[error(
        "the registry's database is too busy: there are more reads for cache misses than [shed] \
         allows, or they time out while it answers others"
    )]
    Reads,
    /// Too many keys are looked up that turn out to be unknown.
    #[error("too many unknown API keys are being looked up")]
    UnknownKeys,
    /// The rate limit cannot be checked.
    #[error(
        "requests cannot be counted: Redis is unavailable and rate_limit.without_redis is refuse, \
         or too many requests wait for it"
    )]
    Uncounted,
    /// The operation took longer than `server.request_timeout_ms`.
    #[error("there was no response within server.request_timeout_ms")]
    TimedOut,
}

fn limit_text(decision: &Decision) -> String {
    match decision.limit {
        0 => "this key has the limit 0, so no request is accepted; use another key".to_owned(),
        limit => format!(
            "the limit of {limit} requests a minute is used up; try again in {} s",
            decision.retry_after_seconds()
        ),
    }
}

impl ErrorResponse for ApiError {
    const UNKNOWN_ROUTE: Self = Self::UnknownRoute;
    const INTERNAL: Self = Self::Internal;

    type Code = ErrorCode;

    fn method_not_allowed(allow: String) -> Self {
        Self::MethodNotAllowed { allow }
    }

    fn status_and_code(&self) -> (StatusCode, ErrorCode) {
        match self {
            Self::UnknownRoute | Self::NotFound => (StatusCode::NOT_FOUND, ErrorCode::NotFound),
            Self::MethodNotAllowed { .. } => {
                (StatusCode::METHOD_NOT_ALLOWED, ErrorCode::MethodNotAllowed)
            }
            Self::Unauthorized(_) => (StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized),
            Self::RateLimited(_) => (StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited),
            Self::InvalidId(_) => (StatusCode::BAD_REQUEST, ErrorCode::InvalidId),
            Self::Parameter(_) => (StatusCode::BAD_REQUEST, ErrorCode::MissingParam),
            Self::Database(_) => (StatusCode::BAD_GATEWAY, ErrorCode::DbError),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable),
        }
    }

    fn extra_header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::MethodNotAllowed { allow } => {
                HeaderValue::try_from(allow).ok().map(|allow| (header::ALLOW, allow))
            }
            Self::Unauthorized(_) => Some((header::WWW_AUTHENTICATE, CHALLENGE)),
            Self::RateLimited(decision) => {
                Some((header::RETRY_AFTER, decision.retry_after_seconds().into()))
            }
            Self::Unavailable(_) => Some((header::RETRY_AFTER, OVERLOAD_SECONDS.into())),
            _ => None,
        }
    }

    fn logged_cause(&self) -> Option<ErrorCause> {
        match self {
            Self::Database(error) => Some(ErrorCause(Arc::clone(error) as _)),
            Self::Unauthorized(denied) => Some(ErrorCause(Arc::new(*denied))),
            Self::Unavailable(overload) => Some(ErrorCause(Arc::new(*overload))),
            _ => None,
        }
    }
}

impl ResponseError for ApiError {
    fn status(&self) -> StatusCode {
        self.status_and_code().0
    }

    fn as_response(&self) -> Response {
        error_response(self)
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound => Self::NotFound,
            ReadError::Upstream(error) => Self::Database(error),
            ReadError::Overloaded => Self::Unavailable(Overload::Reads),
            ReadError::Crashed(_) => Self::Internal,
        }
    }
}

impl From<NotAuthenticated> for ApiError {
    fn from(error: NotAuthenticated) -> Self {
        match error {
            NotAuthenticated::Denied(denied) => Self::Unauthorized(denied),
            NotAuthenticated::Unavailable(error) => Self::Database(error),
            NotAuthenticated::TooManyUnknown => Self::Unavailable(Overload::UnknownKeys),
            NotAuthenticated::TaskPanicked(_) => Self::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_spelled_as_documented() {
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
    async fn database_errors_reveal_nothing_about_the_database() {
        let inner = std::io::Error::other("connect to db.internal:5432 as reader failed");
        let error = ApiError::Database(Arc::new(UpstreamError::Unreachable(Box::new(inner))));
        let response = error.as_response();
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
        let body = response.into_body().into_string().await.expect("a body");
        assert_eq!(
            body,
            r#"{"error":"the registry's database is unavailable; try again later","code":"DB_ERROR"}"#
        );
    }
}
