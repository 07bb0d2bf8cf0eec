//! Requests to a server's control API.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::{Method, Request, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::address::ServerAddress;
use crate::cli::show::sanitize;
use crate::net::{HttpClient, HttpError};
use crate::registry::Timestamp;

/// One server's control API.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Control {
    web: HttpClient,
    pub(in crate::cli) server: ServerAddress,
}

/// How to log in to a server.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct LoginMetadata {
    methods: Vec<String>,
    pub(in crate::cli) oidc: Option<OidcMetadata>,
}

impl LoginMetadata {
    /// Whether tokens that its operator hands out are taken.
    pub(in crate::cli) fn takes_tokens(&self) -> bool {
        self.methods.iter().any(|method| method == "token")
    }
}

/// How to log in by an OpenID issuer.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct OidcMetadata {
    pub(in crate::cli) issuer: String,
    pub(in crate::cli) client_id: String,
    pub(in crate::cli) scopes: String,
    pub(in crate::cli) audience: Option<String>,
    pub(in crate::cli) resource: Option<String>,
}

/// Who a token's owner is to a server.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct WhoAmI {
    pub(in crate::cli) user: String,
    pub(in crate::cli) operator: bool,
    pub(in crate::cli) method: String,
    pub(in crate::cli) expires_at: Option<Timestamp>,
}

/// Why a server did not do what it was asked for.
#[derive(Debug, Error)]
pub(in crate::cli) enum ControlError {
    #[error("{server} cannot be asked")]
    Web { server: ServerAddress, source: HttpError },
    /// The control API refused.
    #[error("{0}")]
    Refused(Box<Refused>),
    #[error(
        "{server} does not answer as a control API does (status {status}); \
         is it the address of the control listener?"
    )]
    NotControl { server: ServerAddress, status: StatusCode },
    #[error("the token has characters that no token has")]
    BadToken,
}

/// A refusal as the control API words it.
#[derive(Debug)]
pub(in crate::cli) struct Refused {
    pub(in crate::cli) status: StatusCode,
    pub(in crate::cli) code: String,
    /// Fit to be shown.
    pub(in crate::cli) message: String,
    /// All of the body.
    pub(in crate::cli) body: Value,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Control {
    pub(in crate::cli) fn new(web: &HttpClient, server: &ServerAddress) -> Self {
        Self { web: web.clone(), server: server.clone() }
    }

    /// How to log in.
    pub(in crate::cli) async fn login(&self) -> Result<LoginMetadata, ControlError> {
        match self.ask(Method::GET, "/login", None, None).await {
            // Something else that speaks JSON, such as the public listener.
            Err(ControlError::Refused(refused)) if refused.status == StatusCode::NOT_FOUND => {
                let (server, status) = (self.server.clone(), refused.status);
                Err(ControlError::NotControl { server, status })
            }
            answer => answer,
        }
    }

    /// Whose the token is.
    pub(in crate::cli) async fn whoami(
        &self,
        token: &SecretString,
    ) -> Result<WhoAmI, ControlError> {
        self.ask(Method::GET, "/whoami", Some(token), None).await
    }

    /// Sends a request; with a body, as JSON.
    pub(in crate::cli) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        token: Option<&SecretString>,
        body: Option<&Value>,
    ) -> Result<T, ControlError> {
        let request = self.request(method, path, token, body)?;
        let answer = self.web.send(request).await;
        let answer = answer.map_err(|source| self.unreachable(source))?;
        let (status, body) = (answer.status(), answer.into_body());
        let not_control = || ControlError::NotControl { server: self.server.clone(), status };
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| not_control());
        }
        Err(refused(status, &body).map_or_else(not_control, ControlError::Refused))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        token: Option<&SecretString>,
        body: Option<&Value>,
    ) -> Result<Request<Full<Bytes>>, ControlError> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.server.control(path))
            .header(header::ACCEPT, "application/json");
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()));
            let mut value = value.map_err(|_| ControlError::BadToken)?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        request.body(Full::from(body)).map_err(|error| self.unreachable(error.into()))
    }

    fn unreachable(&self, source: HttpError) -> ControlError {
        ControlError::Web { server: self.server.clone(), source }
    }
}

fn refused(status: StatusCode, body: &[u8]) -> Option<Box<Refused>> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let code = body.get("code")?.as_str()?.to_owned();
    let message = sanitize(body.get("error")?.as_str()?);
    Some(Box::new(Refused { status, code, message, body }))
}
