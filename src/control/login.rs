//! `GET /control/v1/login`: how to log in. The only operation that needs no token.

use std::sync::Arc;

use poem_openapi::OpenApi;
use serde::Serialize;

use super::model::Login;
use super::reply::{JsonReply, reply};
use crate::config::ControlConfig;

/// The operation, with its constant result.
pub(super) struct LoginApi(pub(super) Arc<LoginMetadataEndpoint>);

/// How to log in, as configured.
#[derive(Debug, Serialize)]
pub(super) struct LoginMetadataEndpoint {
    methods: Vec<&'static str>,
    oidc: Option<OidcParameters>,
}

#[derive(Debug, Serialize)]
struct OidcParameters {
    issuer: String,
    client_id: String,
    scopes: String,
    audience: String,
    resource: Option<String>,
}

impl LoginMetadataEndpoint {
    /// The metadata for this configuration.
    pub(super) fn new(config: &ControlConfig) -> Self {
        let oidc = &config.oidc;
        let oidc = oidc.issuer.clone().map(|issuer| OidcParameters {
            issuer,
            client_id: oidc.client_id.clone().unwrap_or_default(),
            scopes: oidc.scopes.clone(),
            audience: oidc.audience.clone().unwrap_or_default(),
            resource: oidc.resource.clone(),
        });
        let mut methods = Vec::new();
        methods.extend(oidc.is_some().then_some("oidc"));
        methods.extend((!config.tokens.is_empty()).then_some("token"));
        Self { methods, oidc }
    }
}

#[OpenApi]
impl LoginApi {
    /// Get login metadata
    ///
    /// Needs no token. The issuer issues access tokens, for example by the device authorization grant
    /// (RFC 8628).
    #[oai(path = "/control/v1/login", method = "get", operation_id = "howToLogIn")]
    async fn how_to_log_in(&self) -> poem::Result<JsonReply<Login>> {
        Ok(reply(&*self.0)?)
    }
}
