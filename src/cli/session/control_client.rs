//! Sends requests to a server's control API.

use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::{Method, Request, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::address::ServerAddress;
use crate::cli::output::sanitize;
use crate::net::{HttpClient, HttpError};
use crate::registry::Timestamp;

/// A client of one server's control API.
#[derive(Debug, Clone)]
pub(in crate::cli) struct ControlClient {
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
    /// Whether the server accepts tokens that its operator creates.
    pub(in crate::cli) fn accepts_tokens(&self) -> bool {
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

/// The user that a token belongs to.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct WhoAmI {
    pub(in crate::cli) user: String,
    pub(in crate::cli) operator: bool,
    pub(in crate::cli) method: String,
    pub(in crate::cli) expires_at: Option<Timestamp>,
}

/// Why a request to the control API failed.
#[derive(Debug, Error)]
pub(in crate::cli) enum ControlClientError {
    #[error("cannot reach {server}")]
    Unreachable { server: ServerAddress, source: HttpError },
    /// The control API returned an error.
    #[error("{}", .0.message)]
    Rejected(Box<Rejection>),
    #[error(
        "{server} does not respond like a control API (status {status}). Check that it is the \
         address of the control listener"
    )]
    NotControl { server: ServerAddress, status: StatusCode },
    #[error("the token contains invalid characters")]
    BadToken,
}

impl ControlClientError {
    /// Whether the control API returned an error with this status.
    pub(in crate::cli) fn has_status(&self, status: StatusCode) -> bool {
        matches!(self, Self::Rejected(rejection) if rejection.status == status)
    }
}

/// An error response of the control API.
#[derive(Debug)]
pub(in crate::cli) struct Rejection {
    status: StatusCode,
    pub(in crate::cli) code: String,
    /// Sanitized.
    pub(in crate::cli) message: String,
    body: Value,
}

impl Rejection {
    /// A field of the body, parsed; `None` if it is missing or malformed.
    pub(in crate::cli) fn field<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        T::deserialize(self.body.get(name)?).ok()
    }
}

impl ControlClient {
    pub(in crate::cli) fn new(web: &HttpClient, server: &ServerAddress) -> Self {
        Self { web: web.clone(), server: server.clone() }
    }

    /// The login methods of the server.
    pub(in crate::cli) async fn login(&self) -> Result<LoginMetadata, ControlClientError> {
        match self.send(Method::GET, "/login", None, None).await {
            // Another service with JSON errors, such as the public listener.
            Err(error) if error.has_status(StatusCode::NOT_FOUND) => {
                let (server, status) = (self.server.clone(), StatusCode::NOT_FOUND);
                Err(ControlClientError::NotControl { server, status })
            }
            result => result,
        }
    }

    /// The user that the token belongs to.
    pub(in crate::cli) async fn whoami(
        &self,
        token: &SecretString,
    ) -> Result<WhoAmI, ControlClientError> {
        self.send(Method::GET, "/whoami", Some(token), None).await
    }

    /// Sends a request, with `body` as JSON, and parses the JSON response.
    pub(in crate::cli) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        token: Option<&SecretString>,
        body: Option<&Value>,
    ) -> Result<T, ControlClientError> {
        let unreachable =
            |source| ControlClientError::Unreachable { server: self.server.clone(), source };
        let mut request = Request::builder()
            .method(method)
            .uri(self.server.control_url(path))
            .header(header::ACCEPT, "application/json");
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()));
            let mut value = value.map_err(|_| ControlClientError::BadToken)?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = Full::from(body.map(Value::to_string).unwrap_or_default());
        let request = request.body(body).map_err(|error| unreachable(error.into()))?;
        let response = self.web.send(request).await.map_err(unreachable)?;
        let (status, body) = (response.status(), response.into_body());
        let not_control = || ControlClientError::NotControl { server: self.server.clone(), status };
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| not_control());
        }
        Err(rejection(status, &body).map_or_else(not_control, ControlClientError::Rejected))
    }
}

fn rejection(status: StatusCode, body: &[u8]) -> Option<Box<Rejection>> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let code = body.get("code")?.as_str()?.to_owned();
    let message = sanitize(body.get("error")?.as_str()?);
    Some(Box::new(Rejection { status, code, message, body }))
}
