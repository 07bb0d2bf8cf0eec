//! `GET /control/v1/login`: how to log in. The one thing that is told to everybody.

use std::sync::Arc;

use poem_openapi::OpenApi;
use serde::Serialize;

use super::model::Login;
use super::reply::Reply;
use crate::config::ControlConfig;

/// How to log in.
pub(super) struct LoginApi(pub(super) Arc<LoginMetadataEndpoint>);

/// The answer, as it is written.
#[derive(Debug, Serialize)]
pub(super) struct LoginMetadataEndpoint {
    methods: Vec<&'static str>,
    oidc: Option<IssuerToAsk>,
}

#[derive(Debug, Serialize)]
struct IssuerToAsk {
    issuer: String,
    client_id: String,
    scopes: String,
    audience: String,
    resource: Option<String>,
}

impl LoginMetadataEndpoint {
    pub(super) fn new(config: &ControlConfig) -> Self {
        let oidc = &config.oidc;
        let oidc = oidc.issuer.clone().map(|issuer| IssuerToAsk {
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
    /// How to log in
    ///
    /// Needs no token. Access tokens are got from the issuer, by the device authorization grant
    /// (RFC 8628) for example.
    #[oai(path = "/control/v1/login", method = "get", operation_id = "howToLogIn")]
    async fn how_to_log_in(&self) -> poem::Result<Reply<Login>> {
        Ok(Reply::new(&*self.0)?)
    }
}
