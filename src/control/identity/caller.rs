//! An authenticated user of the control API.

use serde::Serialize;

use crate::registry::Timestamp;

/// An authenticated user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user's handle, which owns the keys.
    pub user: String,
    /// Whether the user may see and change everybody's keys.
    pub operator: bool,
    /// The kind of credentials that were used.
    pub method: AuthMethod,
    /// When the credentials expire; `None` for never.
    pub expires_at: Option<Timestamp>,
}

/// A kind of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, poem_openapi::Enum)]
#[serde(rename_all = "lowercase")]
#[oai(rename = "LoginMethod", rename_all = "lowercase")]
pub enum AuthMethod {
    /// An access token of the issuer.
    Oidc,
    /// A login token.
    Token,
}

/// A user, the kind of credentials, and when they expire.
pub(super) type VerifiedIdentity = (String, AuthMethod, Option<Timestamp>);
