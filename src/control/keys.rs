//! Who is asking, and their API keys.

use std::sync::Arc;

use poem::{Request, RequestBody};
use poem_openapi::registry::{MetaSchema, MetaSecurityScheme, Registry};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions, OpenApi};
use serde::Serialize;
use serde_json::json;

use super::body::Body;
use super::error::ControlError;
use super::identity::Caller;
use super::model::{ApiKey, ApiKeyPage, NewApiKey, RotatedApiKey, WhoAmI};
use super::reply::Reply;
use super::requests::{CreateApiKey, KeySelector, RevokeApiKey, RotateApiKey};
use crate::api::query::{Query, QueryValue};
use crate::keys::store::{Listing, RevokeOutcome, RotateOutcome, StoredKey};
use crate::keys::{KeyStore, NewKey};
use crate::registry::rfc3339_seconds;

const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 1000;

/// The caller's keys.
pub(super) struct KeysApi(pub(super) Arc<dyn KeyStore>);

#[derive(Serialize)]
struct WithKey<'a> {
    key: &'a str,
    #[serde(flatten)]
    stored: &'a StoredKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<&'a StoredKey>,
}

#[OpenApi]
impl KeysApi {
    /// Who am I
    #[oai(path = "/control/v1/whoami", method = "get", operation_id = "whoAmI")]
    async fn who_am_i(&self, caller: AuthenticatedCaller) -> poem::Result<Reply<WhoAmI>> {
        let Caller { user, operator, method, expires_at } = &*caller.0;
        Ok(Reply::new(&json!({
            "user": user,
            "operator": operator,
            "method": method.as_str(),
            "expires_at": expires_at.map(rfc3339_seconds),
        }))?)
    }

    /// Create an API key
    ///
    /// The key itself is in the answer, this once.
    #[oai(path = "/control/v1/api-keys", method = "post", operation_id = "createApiKey")]
    async fn create(
        &self,
        caller: AuthenticatedCaller,
        body: Body<CreateApiKey>,
    ) -> poem::Result<Reply<NewApiKey>> {
        let wanted = body.0;
        let new = NewKey {
            owner: caller.0.user.clone(),
            name: wanted.name,
            scopes: wanted.scopes,
            rate_limit_per_minute: wanted.rate_limit_per_minute,
            expires_at: wanted.expires_at,
        };
        let (key, stored) = self.0.create(&new).await.map_err(ControlError::from)?;
        Ok(Reply::new(&WithKey { key: key.expose(), stored: &stored, replaced: None })?)
    }

    /// List API keys
    ///
    /// Newest first.
    #[oai(path = "/control/v1/api-keys", method = "get", operation_id = "listApiKeys")]
    async fn list(
        &self,
        caller: AuthenticatedCaller,
        /// Keys at most.
        limit: Query<Limit>,
        /// Keys skipped.
        offset: Query<Offset>,
        /// Whether everybody's keys are meant; for operators alone.
        all: Query<All>,
    ) -> poem::Result<Reply<ApiKeyPage>> {
        let owner = caller.owner(all.0.0)?;
        let listing = Listing { limit: limit.0.0, offset: offset.0.0 };
        let listed = self.0.list(owner, listing).await.map_err(ControlError::from)?;
        let shown = u64::from(listing.offset) + listed.keys.len() as u64;
        Ok(Reply::new(&json!({
            "data": listed.keys,
            "total": listed.total,
            "has_more": !listed.keys.is_empty() && shown < listed.total,
        }))?)
    }

    /// Revoke an API key
    ///
    /// Of several keys that begin like that, none is revoked. Doing it twice is harmless. The
    /// beginning is in the body, for there people do not leave whole keys in logs.
    #[oai(path = "/control/v1/api-keys/revoke", method = "post", operation_id = "revokeApiKey")]
    async fn revoke(
        &self,
        caller: AuthenticatedCaller,
        body: Body<RevokeApiKey>,
    ) -> poem::Result<Reply<ApiKey>> {
        let KeySelector { prefix, all } = body.0;
        let owner = caller.owner(all)?;
        match self.0.revoke(owner, &prefix).await.map_err(ControlError::from)? {
            RevokeOutcome::Key(key) => Ok(Reply::new(&key)?),
            RevokeOutcome::None => Err(ControlError::NoSuchKey.into()),
            RevokeOutcome::Ambiguous(keys) => Err(ControlError::Ambiguous(keys).into()),
        }
    }

    /// Replace an API key
    ///
    /// By a new one of the same owner, name, scopes, limit and lifetime. The old one ends after
    /// the overlap, or when it would have ended anyway. Doing it again, because the answer was lost
    /// for example, is refused while the key that took its place is good: rotate that one then.
    #[oai(path = "/control/v1/api-keys/rotate", method = "post", operation_id = "rotateApiKey")]
    async fn rotate(
        &self,
        caller: AuthenticatedCaller,
        body: Body<RotateApiKey>,
    ) -> poem::Result<Reply<RotatedApiKey>> {
        let (KeySelector { prefix, all }, overlap) = body.0;
        let owner = caller.owner(all)?;
        match self.0.rotate(owner, &prefix, overlap).await.map_err(ControlError::from)? {
            RotateOutcome::Key { key, new, replaced } => {
                let shown = WithKey { key: key.expose(), stored: &new, replaced: Some(&replaced) };
                Ok(Reply::new(&shown)?)
            }
            RotateOutcome::None => Err(ControlError::NoSuchKey.into()),
            RotateOutcome::Ambiguous(keys) => Err(ControlError::Ambiguous(keys).into()),
            RotateOutcome::Already { successor } => {
                Err(ControlError::AlreadyRotated(successor).into())
            }
            RotateOutcome::NotActive(_) => Err(ControlError::NotActive.into()),
        }
    }
}

/// Who is asking: [`super::listener`] has found that out before any operation begins.
struct AuthenticatedCaller(Arc<Caller>);

impl AuthenticatedCaller {
    /// Whose keys are meant; `None` for everybody's.
    fn owner(&self, all: bool) -> Result<Option<&str>, ControlError> {
        match (all, self.0.operator) {
            (false, _) => Ok(Some(&self.0.user)),
            (true, true) => Ok(None),
            (true, false) => Err(ControlError::NotAnOperator),
        }
    }
}

/// The security scheme's name in the document.
const SCHEME: &str = "Bearer";

impl<'a> ApiExtractor<'a> for AuthenticatedCaller {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::SecurityScheme];

    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        registry.create_security_scheme(
            SCHEME,
            MetaSecurityScheme {
                ty: "http",
                description: Some(
                    "An access token of the issuer, or a login token; see `GET /login`.",
                ),
                name: None,
                key_in: None,
                scheme: Some("bearer"),
                bearer_format: None,
                flows: None,
                openid_connect_url: None,
            },
        );
    }

    fn security_schemes() -> Vec<&'static str> {
        vec![SCHEME]
    }

    async fn from_request(
        request: &'a Request,
        _: &mut RequestBody,
        _: ExtractParamOptions<()>,
    ) -> poem::Result<Self> {
        let caller = request.data::<Arc<Caller>>().cloned();
        Ok(caller.map(Self).ok_or(ControlError::Internal)?)
    }
}

struct Limit(u32);
struct Offset(u32);
struct All(bool);

fn whole(given: &str, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
    let is_plain = given.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| given.parse().ok()).flatten().filter(|number| range.contains(number))
}

fn integer(range: std::ops::RangeInclusive<u32>, default: u32) -> MetaSchema {
    MetaSchema {
        minimum: Some(f64::from(*range.start())),
        maximum: Some(f64::from(*range.end())),
        default: Some(default.into()),
        ..MetaSchema::new("integer")
    }
}

impl QueryValue for Limit {
    const ALLOWED: &'static str = "an integer from 1 to 1000";

    fn schema() -> MetaSchema {
        integer(1..=MAX_LIMIT, DEFAULT_LIMIT)
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(DEFAULT_LIMIT), |given| whole(given, 1..=MAX_LIMIT)).map(Self)
    }
}

impl QueryValue for Offset {
    const ALLOWED: &'static str = "an integer from 0 to 2147483647";

    fn schema() -> MetaSchema {
        integer(0..=i32::MAX.unsigned_abs(), 0)
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(0), |given| whole(given, 0..=i32::MAX.unsigned_abs())).map(Self)
    }
}

impl QueryValue for All {
    const ALLOWED: &'static str = "true or false";

    fn schema() -> MetaSchema {
        MetaSchema { default: Some(false.into()), ..MetaSchema::new("boolean") }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        match given {
            None | Some("false") => Some(Self(false)),
            Some("true") => Some(Self(true)),
            Some(_) => None,
        }
    }
}
