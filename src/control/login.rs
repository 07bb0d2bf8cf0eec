//! `GET /control/v1/login`: how to log in. The only operation that needs no token.

use poem_openapi::OpenApi;
use serde_json::{Value, json};

use super::identity::AuthMethod;
use super::model::Login;
use super::reply::{JsonReply, reply};
use super::tag::ControlTag;
use crate::config::ControlConfig;

/// The operation, with its constant result.
pub(super) struct LoginApi(Value);

impl LoginApi {
    /// Returns how to log in according to this configuration.
    pub(super) fn new(config: &ControlConfig) -> Self {
        let oidc = &config.oidc;
        let issuer = oidc.issuer.as_ref().map(|issuer| {
            json!({
                "issuer": issuer,
                "client_id": oidc.client_id.as_deref().unwrap_or_default(),
                "scopes": oidc.scopes,
                "audience": oidc.audience.as_deref().unwrap_or_default(),
                "resource": oidc.resource,
            })
        });
        Self(json!({ "methods": login_methods(config), "oidc": issuer }))
    }
}

/// The kinds of credentials that are accepted.
pub(super) fn login_methods(config: &ControlConfig) -> Vec<AuthMethod> {
    let methods = [
        (AuthMethod::Oidc, config.oidc.issuer.is_some()),
        (AuthMethod::Token, !config.tokens.is_empty()),
    ];
    methods.into_iter().filter_map(|(method, is_accepted)| is_accepted.then_some(method)).collect()
}

#[OpenApi(tag = "ControlTag::Login")]
impl LoginApi {
    /// Get login metadata
    ///
    /// Needs no token. The issuer issues access tokens, for example by the device authorization grant
    /// (RFC 8628).
    #[oai(path = "/control/v1/login", method = "get", operation_id = "howToLogIn")]
    async fn how_to_log_in(&self) -> poem::Result<JsonReply<Login>> {
        Ok(reply(&self.0)?)
    }
}
