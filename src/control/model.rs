//! Answers as the document describes them. Answers are written from the values
//! themselves; a test holds every served answer against these descriptions.

use poem_openapi::registry::MetaSchema;
use poem_openapi::{Enum, Object};

use super::error::ControlCode;
use super::reply::Answer;
use crate::api::model::{Time, documented};

documented!(
    /// A moment: RFC 3339, UTC, whole seconds; or null.
    pub(super) TimeOrNull,
    "string_date-time_or_null",
    MetaSchema { nullable: true, ..MetaSchema::new_with_format("string", "date-time") }
);

documented!(
    /// Text or null.
    pub(super) TextOrNull,
    "string_or_null",
    MetaSchema { nullable: true, ..MetaSchema::new("string") }
);

/// How to log in.
#[derive(Object)]
pub(super) struct Login {
    /// What is taken: `oidc`, an access token of the issuer; `token`, a login token.
    methods: Vec<LoginMethod>,
    /// The issuer, where there is one; else null.
    oidc: Option<Oidc>,
}

/// A way to log in.
#[derive(Enum)]
#[oai(rename_all = "lowercase")]
pub(super) enum LoginMethod {
    /// An access token of the issuer.
    Oidc,
    /// A login token.
    Token,
}

/// An OpenID Connect issuer, and what to ask it for.
#[derive(Object)]
pub(super) struct Oidc {
    /// Its identifier, under which is `/.well-known/openid-configuration`.
    issuer: String,
    /// The client to log in as.
    client_id: String,
    /// The scopes to ask for, separated by spaces.
    scopes: String,
    /// Whom access tokens are made out to.
    audience: String,
    /// The resource to ask a token for (RFC 8707); null where none is to be named.
    resource: TextOrNull,
}

/// Who is asking.
#[derive(Object)]
pub(super) struct WhoAmI {
    /// The user's handle: whose keys are meant.
    user: String,
    /// Whether the user may see and change everybody's keys.
    operator: bool,
    /// How it was proven.
    method: LoginMethod,
    /// Until when that holds; null for ever.
    expires_at: TimeOrNull,
}

/// Whether a key is good.
#[derive(Enum)]
#[oai(rename = "ApiKeyStatus", rename_all = "lowercase")]
pub(super) enum KeyStatus {
    /// It is.
    Active,
    /// It has ended.
    Expired,
    /// It was revoked.
    Revoked,
}

macro_rules! key_fields {
    ($(#[$doc:meta])* $name:ident { $($more:tt)* }) => {
        $(#[$doc])*
        #[derive(Object)]
        pub(super) struct $name {
            $($more)*
            /// The beginning that people know it by.
            prefix: String,
            /// Whose it is.
            owner: String,
            /// What its owner calls it.
            name: String,
            /// What it may do.
            scopes: Vec<String>,
            /// Requests a minute.
            #[oai(validator(minimum(value = "0"), maximum(value = "2147483647")))]
            rate_limit_per_minute: i32,
            /// When it was made.
            created_at: Time,
            /// When it ends (at this moment it has ended); null for never.
            expires_at: TimeOrNull,
            /// When it was revoked; null if it was not.
            revoked_at: TimeOrNull,
            /// Its last request, as far as that has been written down (once a minute); null if
            /// there was none.
            last_used_at: TimeOrNull,
            /// Requests in all its life, as far as they have been written down.
            #[oai(validator(minimum(value = "0")))]
            request_count: i64,
            /// At the moment of the answer.
            status: KeyStatus,
        }
    };
}

key_fields!(
    /// An API key: everything but the key itself.
    ApiKey {}
);

key_fields!(
    /// A new API key.
    NewApiKey {
        /// The key itself. It is shown this once.
        key: String,
    }
);

key_fields!(
    /// A new API key, and the one it replaces.
    RotatedApiKey {
        /// The key itself. It is shown this once.
        key: String,
        /// The old key, with its end.
        replaced: ApiKey,
    }
);

/// Some of the keys, newest first.
#[derive(Object)]
pub(super) struct ApiKeyPage {
    /// They.
    data: Vec<ApiKey>,
    /// How many there are in all.
    #[oai(validator(minimum(value = "0")))]
    total: i64,
    /// Whether there are more after these.
    has_more: bool,
}

/// Every error has this body.
#[derive(Object)]
#[oai(rename = "ControlError")]
pub(super) struct ErrorBody {
    /// What was wrong and what to do, for people. The wording may change.
    error: String,
    /// What was wrong, for programs.
    code: ControlCode,
    /// With `AMBIGUOUS` alone: keys that begin like that.
    candidates: Option<Vec<ApiKey>>,
    /// With `ALREADY_ROTATED` alone: the key that took its place.
    successor: Option<ApiKey>,
}

impl Answer for Login {
    const DESCRIPTION: &'static str = "How to log in.";
    const ERRORS: &'static [u16] = &[405, 500];
}

impl Answer for WhoAmI {
    const DESCRIPTION: &'static str = "Who is asking.";
    const ERRORS: &'static [u16] = &[401, 405, 429, 500, 503];
}

impl Answer for ApiKeyPage {
    const DESCRIPTION: &'static str = "The keys.";
    const ERRORS: &'static [u16] = &[400, 401, 403, 405, 429, 500, 502, 503];
}

impl Answer for NewApiKey {
    const STATUS: u16 = 201;
    const DESCRIPTION: &'static str = "The new key.";
    const ERRORS: &'static [u16] = &[400, 401, 405, 415, 429, 500, 502, 503];
}

impl Answer for ApiKey {
    const DESCRIPTION: &'static str = "The key, which is revoked, now or since before.";
    const ERRORS: &'static [u16] = &[400, 401, 403, 404, 405, 409, 415, 429, 500, 502, 503];
}

impl Answer for RotatedApiKey {
    const STATUS: u16 = 201;
    const DESCRIPTION: &'static str = "The new key, and the one it replaces.";
    const ERRORS: &'static [u16] = &[400, 401, 403, 404, 405, 409, 415, 429, 500, 502, 503];
}
