//! The operations on the caller and their API keys.

use std::sync::Arc;

use poem::web::Data;
use poem_openapi::OpenApi;
use serde::Serialize;
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::audited_keys::{AuditedKeys, finish};
use super::body::JsonRequest;
use super::call_limiter::{CallLimiter, CallSlot};
use super::error::ControlApiError;
use super::identity::Caller;
use super::model::{ApiKey, ApiKeyPage, CreatedApiKey, RotatedApiKey, WhoAmI};
use super::parameters::{ListLimit, ListOffset};
use super::reply::{JsonReply, reply, reply_holding};
use super::requests::{
    CreateApiKey, KeySelector, KeyToCreate, RevokeApiKey, RotateApiKey, UpdateApiKey,
};
use super::tag::ControlTag;
use crate::http::parameter::Query;
use crate::keys::store::{KeyRotation, ListRange, StoredKey};
use crate::keys::{AuditLog, KeyLimits, KeySpec, KeyStore, NewKey};
use crate::registry::rfc3339_seconds;

/// The operations on the keys in a store.
pub(super) struct KeysApi {
    pub(super) store: Arc<dyn KeyStore>,
    /// The limits of users who are no operators.
    pub(super) limits: KeyLimits,
    pub(super) calls: CallLimiter,
    /// The tasks that use the store.
    pub(super) tasks: TaskTracker,
}

/// A key in a response, with its secret.
#[derive(Serialize)]
struct KeyWithSecret<'a> {
    key: &'a str,
    #[serde(flatten)]
    stored: &'a StoredKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<&'a StoredKey>,
}

#[OpenApi]
impl KeysApi {
    /// Get the caller
    ///
    /// The user whom the token belongs to, and what the user may do.
    #[oai(
        path = "/control/v1/whoami",
        method = "get",
        operation_id = "whoAmI",
        tag = "ControlTag::Login"
    )]
    async fn who_am_i(&self, caller: Data<&Arc<Caller>>) -> poem::Result<JsonReply<WhoAmI>> {
        let Caller { user, operator, method, expires_at } = &**caller.0;
        Ok(reply(&json!({
            "user": user,
            "operator": operator,
            "method": method,
            "expires_at": expires_at.map(rfc3339_seconds),
        }))?)
    }

    /// Create an API key
    ///
    /// Only this response contains the secret key. Operators limit the keys of users
    /// (`control.max_rate_limit`, `control.scopes`, `control.max_keys`), but not their own.
    #[oai(
        path = "/control/v1/api-keys",
        method = "post",
        operation_id = "createApiKey",
        tag = "ControlTag::ApiKeys"
    )]
    async fn create(
        &self,
        caller: Data<&Arc<Caller>>,
        body: JsonRequest<CreateApiKey>,
    ) -> poem::Result<JsonReply<CreatedApiKey>> {
        let KeyToCreate { spec, block } = body.0;
        self.check(&caller, &spec, block)?;
        let new = NewKey { owner: caller.user.clone(), spec };
        let slot = self.calls.begin(&caller).await?;
        let (key, stored) = self.audited(&caller, slot).create(new).await?;
        Ok(reply(&KeyWithSecret { key: key.expose(), stored: &stored, replaced: None })?)
    }

    /// List API keys
    ///
    /// Newest first.
    #[oai(
        path = "/control/v1/api-keys",
        method = "get",
        operation_id = "listApiKeys",
        tag = "ControlTag::ApiKeys"
    )]
    async fn list(
        &self,
        caller: Data<&Arc<Caller>>,
        /// The number of keys on a page.
        limit: Query<ListLimit>,
        /// The number of keys to skip.
        offset: Query<ListOffset>,
        /// Whether to list everybody's keys; only for operators.
        all: Query<bool>,
    ) -> poem::Result<JsonReply<ApiKeyPage>> {
        let owner = owner(&caller, all.0)?.map(str::to_owned);
        let range = ListRange { limit: limit.0.0, offset: offset.0.0 };
        let slot = self.calls.begin(&caller).await?;
        let store = Arc::clone(&self.store);
        let list = async move { Ok((store.list(owner.as_deref(), range).await?, slot)) };
        let (listed, slot) = finish(&self.tasks, (), list).await?;
        let shown = u64::from(range.offset) + listed.keys.len() as u64;
        let page = json!({
            "data": listed.keys,
            "total": listed.total,
            "has_more": !listed.keys.is_empty() && shown < listed.total,
        });
        // A long page takes memory until the client has read it.
        Ok(reply_holding(&page, slot.into_call_of_user())?)
    }

    /// Change an API key
    ///
    /// Changes the name, the rate limit or the expiry; what is absent stays as it is. A key that has
    /// expired or was revoked cannot be changed. `control.max_rate_limit` limits users here too. They
    /// cannot extend the life of a key that exceeds it or `control.scopes`.
    #[oai(
        path = "/control/v1/api-keys/update",
        method = "post",
        operation_id = "updateApiKey",
        tag = "ControlTag::ApiKeys"
    )]
    async fn update(
        &self,
        caller: Data<&Arc<Caller>>,
        body: JsonRequest<UpdateApiKey>,
    ) -> poem::Result<JsonReply<ApiKey>> {
        let (KeySelector { prefix, all }, change) = body.0;
        let owner = owner(&caller, all)?.map(str::to_owned);
        let slot = self.calls.begin(&caller).await?;
        let updated = self.audited(&caller, slot).update(owner, prefix, change).await?;
        Ok(reply(&updated)?)
    }

    /// Revoke an API key
    ///
    /// If several keys begin with the prefix, none is revoked. Revoking a key twice changes nothing.
    /// The prefix is in the body, so that a whole key sent by mistake is in no access log.
    #[oai(
        path = "/control/v1/api-keys/revoke",
        method = "post",
        operation_id = "revokeApiKey",
        tag = "ControlTag::ApiKeys"
    )]
    async fn revoke(
        &self,
        caller: Data<&Arc<Caller>>,
        body: JsonRequest<RevokeApiKey>,
    ) -> poem::Result<JsonReply<ApiKey>> {
        let KeySelector { prefix, all } = body.0;
        let owner = owner(&caller, all)?.map(str::to_owned);
        let slot = self.calls.begin_revocation(&caller).await?;
        let revoked = self.audited(&caller, slot).revoke(owner, prefix).await?;
        Ok(reply(&revoked)?)
    }

    /// Replace an API key
    ///
    /// Creates a key with the same owner, name, scopes, limit and lifetime. The old key expires after
    /// the overlap, or at its own expiry if that is earlier. An overlap that would exceed
    /// `control.max_keys` is refused, and so is making more keys than that within a minute. A second
    /// rotation of the same key, for example because the response was lost, is refused while the new
    /// key is active: rotate the new key instead.
    #[oai(
        path = "/control/v1/api-keys/rotate",
        method = "post",
        operation_id = "rotateApiKey",
        tag = "ControlTag::ApiKeys"
    )]
    async fn rotate(
        &self,
        caller: Data<&Arc<Caller>>,
        body: JsonRequest<RotateApiKey>,
    ) -> poem::Result<JsonReply<RotatedApiKey>> {
        let (KeySelector { prefix, all }, overlap) = body.0;
        let owner = owner(&caller, all)?.map(str::to_owned);
        let slot = self.calls.begin(&caller).await?;
        let rotated = self.audited(&caller, slot).rotate(owner, prefix, overlap).await?;
        let KeyRotation { key, new, replaced } = rotated;
        let replaced = Some(&replaced);
        Ok(reply(&KeyWithSecret { key: key.expose(), stored: &new, replaced })?)
    }
}

impl KeysApi {
    /// Checks whether the caller may create such a key, and whether anybody could use it, unless that
    /// does not matter (`block`).
    fn check(&self, caller: &Caller, spec: &KeySpec, block: bool) -> Result<(), ControlApiError> {
        if let Some(limits) = self.limits_of(caller) {
            limits.check(&spec.scopes, spec.rate_limit_per_minute)?;
        }
        if !block {
            self.limits.check_useful(&spec.scopes, spec.rate_limit_per_minute)?;
        }
        Ok(())
    }

    fn audited(&self, caller: &Caller, slot: CallSlot) -> AuditedKeys {
        AuditedKeys {
            slot,
            store: Arc::clone(&self.store),
            limits: self.limits_of(caller).cloned(),
            audit_log: AuditLog::new(&caller.user, "control"),
            tasks: self.tasks.clone(),
        }
    }

    /// The limits of the caller; `None` for operators.
    fn limits_of(&self, caller: &Caller) -> Option<&KeyLimits> {
        (!caller.operator).then_some(&self.limits)
    }
}

/// The owner of the keys that the caller may use; `None` for everybody's.
fn owner(caller: &Caller, all: bool) -> Result<Option<&str>, ControlApiError> {
    match (all, caller.operator) {
        (false, _) => Ok(Some(&caller.user)),
        (true, true) => Ok(None),
        (true, false) => Err(ControlApiError::NotAnOperator),
    }
}
