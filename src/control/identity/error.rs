//! Why callers of the control API are not authenticated.

use std::sync::Arc;

use thiserror::Error;

use super::issuer::IssuerKeysError;

/// Why credentials are refused. Callers always get the same response; only the log says this. It
/// contains no part of the token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum CredentialError {
    #[error("no token was sent")]
    Missing,
    #[error("the header Authorization does not have the form: Bearer TOKEN")]
    NotBearer,
    #[error("the login token is malformed")]
    MalformedToken,
    #[error("the login token is unknown")]
    UnknownToken,
    #[error("the login token has expired")]
    ExpiredToken,
    #[error("the token is not a login token, and no issuer is configured")]
    NoIssuer,
    #[error("the token is not a signed JWT, or its algorithm is not accepted")]
    NotAJwt,
    #[error("the JWT's header has {0}")]
    Header(&'static str),
    #[error("the issuer has no key with this id and algorithm")]
    UnknownKey,
    #[error("the access token is invalid: {0}")]
    Invalid(&'static str),
    #[error("the access token's claim {0} is not a user's name")]
    NoUser(String),
}

/// Why a caller could not be authenticated.
#[derive(Debug, Clone, Error)]
pub enum AuthError {
    /// The credentials are missing or invalid.
    #[error(transparent)]
    Refused(#[from] CredentialError),
    /// Too many invalid tokens came from the same address.
    #[error("too many invalid tokens came from the same address")]
    TooManyInvalidTokens,
    /// The issuer's signing keys are unavailable.
    #[error("the issuer's signing keys are unavailable")]
    IssuerUnavailable(#[source] Arc<IssuerKeysError>),
}
