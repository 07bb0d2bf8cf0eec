//! The one place of the control API that maps a cause to status, code and body.

use std::sync::Arc;

use poem::error::ResponseError;
use poem::http::{HeaderName, HeaderValue, StatusCode, header};
use poem::{IntoResponse, Response};
use serde::Serialize;
use thiserror::Error;

use super::identity::{AuthError, IssuerError, Refusal};
use crate::api::ApiError;
use crate::keys::NotAPrefix;
use crate::keys::store::{StoreError, StoredKey};

/// Seconds after which another token may be tried, or a dependency asked again.
const WAIT_S: u64 = 2;

/// RFC 6750, section 3: without a token, nothing but the scheme.
const CHALLENGE: HeaderValue = HeaderValue::from_static(r#"Bearer realm="gene-registry""#);
const WRONG_TOKEN: HeaderValue =
    HeaderValue::from_static(r#"Bearer realm="gene-registry", error="invalid_token""#);

/// The machine-readable codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, poem_openapi::Enum)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[oai(rename = "ControlErrorCode", rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum ControlCode {
    /// 400: something is wrong in the query or the body.
    MissingParam,
    /// 400: not the beginning of a key.
    InvalidPrefix,
    /// 401: no valid token.
    Unauthorized,
    /// 403: for operators only.
    Forbidden,
    /// 404: no such route or key.
    NotFound,
    /// 405: not with this method.
    MethodNotAllowed,
    /// 409: several keys begin like that.
    Ambiguous,
    /// 409: the key was rotated before, and its successor is good.
    AlreadyRotated,
    /// 409: the key has ended or was revoked.
    NotActive,
    /// 415: the body is no JSON by its content type.
    UnsupportedMediaType,
    /// 429: too many wrong tokens.
    RateLimited,
    /// 500: a fault of this service.
    Internal,
    /// 502: trouble with the database.
    DbError,
    /// 503: keys can only be read.
    KeysReadOnly,
    /// 503: the issuer's keys can't be had.
    IssuerUnavailable,
}

/// Why a request is not answered as asked.
#[derive(Debug, Clone, Error)]
pub(super) enum ControlError {
    #[error("there is nothing under this path; /docs shows what there is")]
    UnknownRoute,
    #[error("only {allow} is supported here")]
    MethodNotAllowed { allow: String },
    #[error(
        "a valid access token or login token is needed: Authorization: Bearer TOKEN; log in with \
         gene-registry login"
    )]
    Unauthorized(Refusal),
    #[error("too many wrong tokens came from this address; try again in {WAIT_S} s")]
    TooManyGuesses,
    #[error("only operators may see or change everybody's keys (control.operators)")]
    NotAnOperator,
    /// The text begins with the name of what is wrong.
    #[error("{0}")]
    Parameter(String),
    #[error("the body must be JSON, sent with Content-Type: application/json")]
    NotJson,
    #[error(transparent)]
    InvalidPrefix(#[from] NotAPrefix),
    #[error("there is no such key")]
    NoSuchKey,
    #[error("several keys begin like that; nothing was done: give more of the prefix")]
    Ambiguous(Vec<StoredKey>),
    #[error(
        "the key was rotated before, and {} took its place; nothing was done. Rotate that one \
         instead (with overlap_s 0 if its key was lost), or revoke it first", .0.prefix
    )]
    AlreadyRotated(Box<StoredKey>),
    #[error("the key has ended or was revoked: create a new one")]
    NotActive,
    #[error("{}", store_text(.0))]
    Store(Arc<StoreError>),
    #[error("the issuer's keys cannot be had, so access tokens cannot be judged at the moment")]
    IssuerUnavailable(Arc<IssuerError>),
    #[error("this service has a fault; it has been logged under this answer's X-Request-Id")]
    Internal,
}

/// Without SQL, host, user or table.
const fn store_text(error: &StoreError) -> &'static str {
    match error {
        StoreError::ReadOnly => {
            "keys can only be read here: the operator has to set control.database_url (or \
             CONTROL_DATABASE_URL), with the role gene_registry_keys"
        }
        StoreError::Forbidden(_) => {
            "keys can only be read here: the role in control.database_url may not write them, or \
             its database is read-only; gene-registry migrate makes the role gene_registry_keys"
        }
        StoreError::NoSchema(_) => {
            "keys cannot be managed here: the database in control.database_url lacks the default \
             schema of this release, which gene-registry migrate makes"
        }
        _ => "the database of the keys cannot be used at the moment; try again",
    }
}

/// What the body must not say, for the log.
#[derive(Debug, Clone)]
pub(super) struct Cause(pub(super) Arc<dyn std::error::Error + Send + Sync>);

#[derive(Serialize)]
struct Body<'a> {
    error: &'a str,
    code: ControlCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<&'a [StoredKey]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<&'a StoredKey>,
}

impl ControlError {
    fn status_and_code(&self) -> (StatusCode, ControlCode) {
        use ControlCode as Code;
        match self {
            Self::UnknownRoute | Self::NoSuchKey => (StatusCode::NOT_FOUND, Code::NotFound),
            Self::MethodNotAllowed { .. } => {
                (StatusCode::METHOD_NOT_ALLOWED, Code::MethodNotAllowed)
            }
            Self::Unauthorized(_) => (StatusCode::UNAUTHORIZED, Code::Unauthorized),
            Self::TooManyGuesses => (StatusCode::TOO_MANY_REQUESTS, Code::RateLimited),
            Self::NotAnOperator => (StatusCode::FORBIDDEN, Code::Forbidden),
            Self::Parameter(_) => (StatusCode::BAD_REQUEST, Code::MissingParam),
            Self::InvalidPrefix(_) => (StatusCode::BAD_REQUEST, Code::InvalidPrefix),
            Self::Ambiguous(_) => (StatusCode::CONFLICT, Code::Ambiguous),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::UnsupportedMediaType),
            Self::AlreadyRotated(_) => (StatusCode::CONFLICT, Code::AlreadyRotated),
            Self::NotActive => (StatusCode::CONFLICT, Code::NotActive),
            Self::Store(error) => match **error {
                StoreError::ReadOnly | StoreError::Forbidden(_) | StoreError::NoSchema(_) => {
                    (StatusCode::SERVICE_UNAVAILABLE, Code::KeysReadOnly)
                }
                StoreError::NoRandomness(_) => (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
                _ => (StatusCode::BAD_GATEWAY, Code::DbError),
            },
            Self::IssuerUnavailable(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, Code::IssuerUnavailable)
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
        }
    }

    fn extra_header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::MethodNotAllowed { allow } => {
                HeaderValue::try_from(allow).ok().map(|allow| (header::ALLOW, allow))
            }
            Self::Unauthorized(Refusal::Missing) => Some((header::WWW_AUTHENTICATE, CHALLENGE)),
            Self::Unauthorized(_) => Some((header::WWW_AUTHENTICATE, WRONG_TOKEN)),
            Self::TooManyGuesses | Self::IssuerUnavailable(_) => {
                Some((header::RETRY_AFTER, WAIT_S.into()))
            }
            _ => None,
        }
    }

    fn cause(&self) -> Option<Cause> {
        match self {
            Self::Unauthorized(refusal) => Some(Cause(Arc::new(refusal.clone()))),
            Self::Store(error) => Some(Cause(Arc::clone(error) as _)),
            Self::IssuerUnavailable(error) => Some(Cause(Arc::clone(error) as _)),
            _ => None,
        }
    }
}

impl IntoResponse for ControlError {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        let error = self.to_string();
        let (candidates, successor) = match &self {
            Self::Ambiguous(candidates) => (Some(candidates.as_slice()), None),
            Self::AlreadyRotated(successor) => (None, Some(&**successor)),
            _ => (None, None),
        };
        let body = Body { error: &error, code, candidates, successor };
        let mut response =
            Response::builder().status(status).body(serde_json::to_vec(&body).unwrap_or_default());
        super::reply::add_headers(response.headers_mut());
        response.headers_mut().extend(self.extra_header());
        if let Some(cause) = self.cause() {
            response.set_data(cause);
        }
        response
    }
}

/// The answer for an error that came through the framework. Its own errors are all of one kind:
/// it knows no such route.
pub(super) fn refusal(error: poem::Error) -> Response {
    let error = match error.downcast::<ControlError>() {
        Ok(error) => return error.into_response(),
        Err(error) => error,
    };
    match error.downcast::<ApiError>() {
        Ok(ApiError::Parameter(text)) => ControlError::Parameter(text).into_response(),
        Ok(error) => {
            tracing::error!(%error, "an error that nobody has mapped");
            ControlError::Internal.into_response()
        }
        Err(error) if error.status() == StatusCode::NOT_FOUND => {
            ControlError::UnknownRoute.into_response()
        }
        Err(error) => {
            tracing::error!(%error, "an error that nobody has mapped");
            ControlError::Internal.into_response()
        }
    }
}

impl ResponseError for ControlError {
    fn status(&self) -> StatusCode {
        self.status_and_code().0
    }

    fn as_response(&self) -> Response {
        self.clone().into_response()
    }
}

impl From<AuthError> for ControlError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Refused(refusal) => Self::Unauthorized(refusal),
            AuthError::TooManyGuesses => Self::TooManyGuesses,
            AuthError::IssuerUnavailable(error) => Self::IssuerUnavailable(error),
        }
    }
}

impl From<StoreError> for ControlError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}
