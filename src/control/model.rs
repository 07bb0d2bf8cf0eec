//! The bodies of responses as the document describes them. The bodies are written from other
//! values; tests compare every served body with these descriptions.

use poem_openapi::{Enum, Object};

use super::error::ControlCode;
use super::identity::AuthMethod;
use crate::http::document::Time;

/// How to log in.
#[derive(Object)]
pub(super) struct Login {
    /// Accepted credentials: `oidc`, an access token of the issuer; `token`, a login token.
    #[oai(validator(max_items = 2))]
    methods: Vec<AuthMethod>,
    /// The issuer; null if none is configured.
    oidc: Option<Oidc>,
}

/// An OpenID Connect issuer, and the parameters of a token request.
#[derive(Object)]
pub(super) struct Oidc {
    /// The issuer's identifier: a URL, below which `/.well-known/openid-configuration` describes it.
    issuer: String,
    /// The client id to use.
    client_id: String,
    /// The scopes to request, separated by spaces.
    scopes: String,
    /// The audience that access tokens must have.
    audience: String,
    /// The resource to request a token for (RFC 8707); null if none is configured.
    #[oai(nullable)]
    resource: String,
}

/// The caller.
#[derive(Object)]
pub(super) struct WhoAmI {
    /// The user's handle, which owns the keys.
    user: String,
    /// Whether the user may see and change everybody's keys.
    operator: bool,
    /// The kind of credentials that the caller used.
    method: AuthMethod,
    /// When these credentials expire; null for never.
    #[oai(nullable)]
    expires_at: Time,
}

/// Whether a key can be used.
#[derive(Enum)]
#[oai(rename = "ApiKeyStatus", rename_all = "lowercase")]
pub(super) enum KeyStatus {
    /// The key can be used.
    Active,
    /// The key has expired.
    Expired,
    /// The key was revoked.
    Revoked,
}

/// An API key, without the secret key itself.
#[derive(Object)]
pub(super) struct ApiKey {
    /// The beginning of the key, which identifies it to people.
    prefix: String,
    /// The user who owns the key.
    owner: String,
    /// The name that the owner gave it.
    name: String,
    /// The operations that the key allows.
    scopes: Vec<String>,
    /// Rate limit, in requests a minute.
    #[oai(validator(minimum(value = "0"), maximum(value = "2147483647")))]
    rate_limit_per_minute: i32,
    /// When the key was created.
    created_at: Time,
    /// When the key expires; null for never. At this time it no longer works.
    #[oai(nullable)]
    expires_at: Time,
    /// When the key was revoked; null if it was not.
    #[oai(nullable)]
    revoked_at: Time,
    /// When the key was last used, recorded once a minute; null if it was never used.
    #[oai(nullable)]
    last_used_at: Time,
    /// Number of requests with the key so far, recorded once a minute.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    request_count: i64,
    /// Whether the key can be used now.
    status: KeyStatus,
}

/// A new API key.
#[derive(Object)]
pub(super) struct CreatedApiKey {
    /// The secret key itself. It is shown only here.
    key: String,
    #[oai(flatten)]
    stored: ApiKey,
}

/// A new API key, and the one it replaces.
#[derive(Object)]
pub(super) struct RotatedApiKey {
    /// The secret key itself. It is shown only here.
    key: String,
    /// The old key, with its new expiry.
    replaced: ApiKey,
    #[oai(flatten)]
    stored: ApiKey,
}

/// Some of the keys, newest first.
#[derive(Object)]
pub(super) struct ApiKeyPage {
    /// The keys.
    #[oai(validator(max_items = 1000))]
    data: Vec<ApiKey>,
    /// Number of keys on all pages.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    total: i64,
    /// Whether more keys follow.
    has_more: bool,
}

/// Every error has this body.
#[derive(Object)]
#[oai(rename = "ControlError")]
pub(crate) struct ErrorBody {
    /// The cause and the remedy, for people. The wording may change.
    error: String,
    /// The kind of error, for programs.
    code: ControlCode,
    /// Only with `AMBIGUOUS`: keys that begin with the prefix.
    #[oai(validator(max_items = 100))]
    candidates: Option<Vec<ApiKey>>,
    /// Only with `ALREADY_ROTATED`: the key that replaced it.
    successor: Option<ApiKey>,
}
