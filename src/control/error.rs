//! Errors of the control API: the only file that maps a cause to status, code and message.

use std::sync::Arc;

use poem::Response;
use poem::error::ResponseError;
use poem::http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use thiserror::Error;

use super::headers::add_headers;
use super::identity::{AuthError, CredentialError, IssuerKeysError};
use crate::http::error::{ErrorCause, ErrorResponse, InvalidParameter, error_response};
use crate::keys::store::{KeyRefusal, StoreError, StoredKey};
use crate::keys::{LimitExceeded, NotAPrefix, UselessKey};

/// Seconds for which clients should wait after too many invalid tokens, or while the issuer's keys
/// are unavailable.
const RETRY_AFTER_S: u64 = 2;

/// Seconds for which clients should wait after too many calls.
const CALLS_RETRY_AFTER_S: u64 = 1;

/// Without a token, only the scheme (RFC 6750, section 3).
const CHALLENGE: HeaderValue = HeaderValue::from_static(r#"Bearer realm="gene-registry""#);
const INVALID_TOKEN: HeaderValue =
    HeaderValue::from_static(r#"Bearer realm="gene-registry", error="invalid_token""#);

/// The message for a name that the database refuses.
const NOT_IN_ENCODING: &str =
    "name must have only characters that the encoding of the registry's database can hold";

/// The machine-readable codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, poem_openapi::Enum)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[oai(rename = "ControlErrorCode", rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum ControlCode {
    /// 400: a query parameter or a field of the body is missing or wrong.
    MissingParam,
    /// 400: the prefix is not the beginning of a key.
    InvalidPrefix,
    /// 401: no valid token.
    Unauthorized,
    /// 403: only operators may do this.
    Forbidden,
    /// 403: operators do not allow users so much.
    LimitExceeded,
    /// 404: the route or key does not exist.
    NotFound,
    /// 405: the route does not support this method.
    MethodNotAllowed,
    /// 409: several keys begin with the prefix.
    Ambiguous,
    /// 409: the key was rotated before, and its successor is active.
    AlreadyRotated,
    /// 409: the key has expired or was revoked.
    NotActive,
    /// 415: the content type of the body is not JSON.
    UnsupportedMediaType,
    /// 429: too many invalid tokens.
    RateLimited,
    /// 500: an internal error of this service.
    Internal,
    /// 502: the database of the keys is unavailable.
    DbError,
    /// 503: keys can be read but not written.
    KeysReadOnly,
    /// 503: the issuer's signing keys are unavailable.
    IssuerUnavailable,
    /// 503: too many calls are in progress.
    Unavailable,
}

/// Why a request failed.
#[derive(Debug, Clone, Error)]
pub(super) enum ControlApiError {
    #[error("nothing is served under this path; /docs lists the operations")]
    UnknownRoute,
    #[error("this path does not support the method; use {allow}")]
    MethodNotAllowed { allow: String },
    #[error(
        "no valid access token or login token; log in with gene-registry login, or send \
         Authorization: Bearer TOKEN"
    )]
    Unauthorized(CredentialError),
    #[error("too many invalid tokens came from this address; try again in {RETRY_AFTER_S} s")]
    TooManyInvalidTokens,
    #[error("only operators may see or change everybody's keys; control.operators lists them")]
    NotAnOperator,
    /// The text begins with the name of the parameter or field.
    #[error(transparent)]
    Parameter(#[from] InvalidParameter),
    #[error("the body is not declared as JSON; send JSON with Content-Type: application/json")]
    NotJson,
    #[error(transparent)]
    InvalidPrefix(#[from] NotAPrefix),
    #[error("{} is refused unless block is true: {}", .0.field(), .0)]
    Useless(#[from] UselessKey),
    #[error(transparent)]
    LimitExceeded(#[from] LimitExceeded),
    #[error("no such key; GET /control/v1/api-keys lists your keys")]
    NoSuchKey,
    #[error("several keys begin with this prefix, so nothing was changed; give a longer prefix")]
    Ambiguous(Vec<StoredKey>),
    #[error(
        "the key was already rotated and replaced by {}, so nothing was changed; rotate the new key \
         instead (with overlap_s 0 if it was lost), or revoke it first", .0.prefix
    )]
    AlreadyRotated(Box<StoredKey>),
    #[error("the key has expired or was revoked; create a new one")]
    NotActive,
    #[error("{}", store_text(.0))]
    Store(Arc<StoreError>),
    #[error(
        "the issuer's signing keys are unavailable, so access tokens cannot be verified; try again \
         in {RETRY_AFTER_S} s"
    )]
    IssuerUnavailable(Arc<IssuerKeysError>),
    #[error(
        "too many calls of this user, or of all users, are in progress; nothing was changed; try again in \
         {CALLS_RETRY_AFTER_S} s"
    )]
    TooManyCalls,
    #[error(
        "internal error of this service; report the X-Request-Id of this response, which is in the log"
    )]
    Internal,
}

/// The message for the caller. It names no SQL, host, user or table.
const fn store_text(error: &StoreError) -> &'static str {
    match error {
        StoreError::ReadOnly => {
            "keys cannot be written: control.database_url is not set; the operator has to set it (or \
             CONTROL_DATABASE_URL), with the role gene_registry_keys"
        }
        StoreError::Forbidden(_) => {
            "keys cannot be written: the role in control.database_url lacks the permission, or its \
             database is read-only; use the role gene_registry_keys, which gene-registry migrate \
             creates"
        }
        StoreError::SchemaMismatch(_) => {
            "keys cannot be managed: the database in control.database_url lacks the default schema \
             of this release; run gene-registry migrate"
        }
        StoreError::Unconfirmed(_) => {
            "the database did not confirm the change, which may have happened; list the keys before \
             you repeat it"
        }
        _ => "the database of the keys is unavailable; try again later",
    }
}

/// The keys that an error is about.
#[derive(Serialize)]
struct KeyDetails<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<&'a [StoredKey]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<&'a StoredKey>,
}

impl ErrorResponse for ControlApiError {
    const UNKNOWN_ROUTE: Self = Self::UnknownRoute;
    const INTERNAL: Self = Self::Internal;

    type Code = ControlCode;

    fn method_not_allowed(allow: String) -> Self {
        Self::MethodNotAllowed { allow }
    }

    fn status_and_code(&self) -> (StatusCode, ControlCode) {
        use ControlCode as Code;
        match self {
            Self::UnknownRoute | Self::NoSuchKey => (StatusCode::NOT_FOUND, Code::NotFound),
            Self::MethodNotAllowed { .. } => {
                (StatusCode::METHOD_NOT_ALLOWED, Code::MethodNotAllowed)
            }
            Self::Unauthorized(_) => (StatusCode::UNAUTHORIZED, Code::Unauthorized),
            Self::TooManyInvalidTokens => (StatusCode::TOO_MANY_REQUESTS, Code::RateLimited),
            Self::NotAnOperator => (StatusCode::FORBIDDEN, Code::Forbidden),
            Self::LimitExceeded(_) => (StatusCode::FORBIDDEN, Code::LimitExceeded),
            Self::Parameter(_) | Self::Useless(_) => (StatusCode::BAD_REQUEST, Code::MissingParam),
            Self::InvalidPrefix(_) => (StatusCode::BAD_REQUEST, Code::InvalidPrefix),
            Self::Ambiguous(_) => (StatusCode::CONFLICT, Code::Ambiguous),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::UnsupportedMediaType),
            Self::AlreadyRotated(_) => (StatusCode::CONFLICT, Code::AlreadyRotated),
            Self::NotActive => (StatusCode::CONFLICT, Code::NotActive),
            Self::Store(error) => match **error {
                StoreError::ReadOnly | StoreError::Forbidden(_) | StoreError::SchemaMismatch(_) => {
                    (StatusCode::SERVICE_UNAVAILABLE, Code::KeysReadOnly)
                }
                StoreError::NoRandomness(_) => (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
                _ => (StatusCode::BAD_GATEWAY, Code::DbError),
            },
            Self::IssuerUnavailable(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, Code::IssuerUnavailable)
            }
            Self::TooManyCalls => (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
        }
    }

    fn extra_header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::MethodNotAllowed { allow } => {
                HeaderValue::try_from(allow).ok().map(|allow| (header::ALLOW, allow))
            }
            Self::Unauthorized(CredentialError::Missing) => {
                Some((header::WWW_AUTHENTICATE, CHALLENGE))
            }
            Self::Unauthorized(_) => Some((header::WWW_AUTHENTICATE, INVALID_TOKEN)),
            Self::TooManyInvalidTokens | Self::IssuerUnavailable(_) => {
                Some((header::RETRY_AFTER, RETRY_AFTER_S.into()))
            }
            Self::TooManyCalls => Some((header::RETRY_AFTER, CALLS_RETRY_AFTER_S.into())),
            _ => None,
        }
    }

    fn logged_cause(&self) -> Option<ErrorCause> {
        match self {
            Self::Unauthorized(refusal) => Some(ErrorCause(Arc::new(refusal.clone()))),
            Self::Store(error) => Some(ErrorCause(Arc::clone(error) as _)),
            Self::IssuerUnavailable(error) => Some(ErrorCause(Arc::clone(error) as _)),
            Self::TooManyCalls => Some(ErrorCause(Arc::new(Self::TooManyCalls))),
            _ => None,
        }
    }

    fn details(&self) -> impl Serialize {
        let (candidates, successor) = match self {
            Self::Ambiguous(candidates) => (Some(candidates.as_slice()), None),
            Self::AlreadyRotated(successor) => (None, Some(&**successor)),
            _ => (None, None),
        };
        KeyDetails { candidates, successor }
    }
}

impl ResponseError for ControlApiError {
    fn status(&self) -> StatusCode {
        self.status_and_code().0
    }

    fn as_response(&self) -> Response {
        let mut response = error_response(self);
        add_headers(response.headers_mut());
        response
    }
}

impl From<AuthError> for ControlApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Refused(refusal) => Self::Unauthorized(refusal),
            AuthError::TooManyInvalidTokens => Self::TooManyInvalidTokens,
            AuthError::IssuerUnavailable(error) => Self::IssuerUnavailable(error),
        }
    }
}

impl From<StoreError> for ControlApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(KeyRefusal::Unknown) => Self::NoSuchKey,
            StoreError::Refused(KeyRefusal::Ambiguous(keys)) => Self::Ambiguous(keys),
            StoreError::Refused(KeyRefusal::AlreadyRotated(key)) => Self::AlreadyRotated(key),
            StoreError::Refused(KeyRefusal::NotActive) => Self::NotActive,
            StoreError::Refused(KeyRefusal::LimitExceeded(error)) => Self::LimitExceeded(error),
            StoreError::Untranslatable(_) => InvalidParameter(NOT_IN_ENCODING.to_owned()).into(),
            error => Self::Store(Arc::new(error)),
        }
    }
}
