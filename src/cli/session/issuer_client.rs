//! Sends requests to an OpenID issuer: discovery, tokens, revocation.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode, header};
use jiff::SignedDuration;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::address::{AddressError, parse_confidential_url};
use crate::cli::output::sanitize;
use crate::net::{HttpClient, HttpError};
use crate::registry::Timestamp;

/// The fields of a form. Never logged: some values are secret.
pub(super) type FormFields<'a> = Vec<(&'a str, &'a str)>;

/// A client of an issuer whose metadata has been read.
#[derive(Debug)]
pub(in crate::cli) struct IssuerClient {
    web: HttpClient,
    pub(super) metadata: IssuerMetadata,
}

/// The fields of an issuer's metadata that are needed (OpenID Connect Discovery 1.0).
#[derive(Debug, Deserialize)]
pub(super) struct IssuerMetadata {
    issuer: String,
    token_endpoint: String,
    pub(super) device_authorization_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
}

/// The tokens that an issuer returned.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Tokens {
    pub(in crate::cli) access_token: SecretString,
    token_type: String,
    /// Seconds from now.
    expires_in: Option<u64>,
    pub(in crate::cli) refresh_token: Option<SecretString>,
}

/// Why a request to an issuer failed.
#[derive(Debug, Error)]
pub(in crate::cli) enum IssuerClientError {
    #[error("the URL of the login server, or of one of its endpoints, cannot be used: {0}")]
    Address(#[from] AddressError),
    #[error(
        "the login server at {0} identifies itself as another issuer; the registry's operator must \
         correct control.oidc"
    )]
    OtherIssuer(String),
    #[error("the login server does not support the device flow; its operator must enable it")]
    NoDeviceFlow,
    #[error("cannot reach the login server")]
    Unreachable(#[from] HttpError),
    #[error("the login server sent an invalid response (status {0})")]
    InvalidResponse(StatusCode),
    /// An error of RFC 6749.
    #[error("the login server rejected the request: {}{}", sanitize(.code), in_parentheses(.description))]
    Rejected { code: String, description: Option<String> },
}

impl IssuerClientError {
    /// Whether the issuer could not be reached, or reports a fault of its own.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::InvalidResponse(status) => status.is_server_error(),
            _ => false,
        }
    }
}

fn in_parentheses(text: &Option<String>) -> String {
    text.as_deref().map(|text| format!(" ({})", sanitize(text))).unwrap_or_default()
}

#[derive(Debug, Deserialize)]
struct ErrorBody {
    error: String,
    error_description: Option<String>,
}

impl Tokens {
    /// When the access token expires, if the issuer says so.
    pub(in crate::cli) fn expiry(&self) -> Option<Timestamp> {
        let lifetime = SignedDuration::try_from(Duration::from_secs(self.expires_in?)).ok()?;
        Timestamp::now().checked_add(lifetime).ok()
    }
}

impl IssuerClient {
    /// Reads the issuer's metadata (OpenID Connect Discovery 1.0).
    pub(in crate::cli) async fn discover(
        web: &HttpClient,
        issuer: &str,
    ) -> Result<Self, IssuerClientError> {
        parse_confidential_url(issuer)?;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let metadata: IssuerMetadata = web.get_json(&url).await?;
        if metadata.issuer != issuer {
            return Err(IssuerClientError::OtherIssuer(sanitize(issuer)));
        }
        let others = [&metadata.device_authorization_endpoint, &metadata.revocation_endpoint];
        for endpoint in others.into_iter().flatten().chain([&metadata.token_endpoint]) {
            parse_confidential_url(endpoint)?;
        }
        Ok(Self { web: web.clone(), metadata })
    }

    /// Requests tokens.
    pub(super) async fn tokens(&self, form: &FormFields<'_>) -> Result<Tokens, IssuerClientError> {
        let tokens: Tokens = self.post(&self.metadata.token_endpoint, form).await?;
        if !tokens.token_type.eq_ignore_ascii_case("bearer") {
            return Err(IssuerClientError::InvalidResponse(StatusCode::OK));
        }
        Ok(tokens)
    }

    /// Revokes a refresh token (RFC 7009); `false` if the issuer does not support that.
    pub(in crate::cli) async fn revoke(
        &self,
        client_id: &str,
        refresh_token: &SecretString,
    ) -> Result<bool, IssuerClientError> {
        let Some(endpoint) = &self.metadata.revocation_endpoint else { return Ok(false) };
        let form = vec![
            ("client_id", client_id),
            ("token", refresh_token.expose_secret()),
            ("token_type_hint", "refresh_token"),
        ];
        let (status, body) = self.send(endpoint, &form).await?;
        if status == StatusCode::OK { Ok(true) } else { Err(rejection(status, &body)) }
    }

    /// Posts a form and parses the JSON response.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        endpoint: &str,
        form: &FormFields<'_>,
    ) -> Result<T, IssuerClientError> {
        let (status, body) = self.send(endpoint, form).await?;
        if status != StatusCode::OK {
            return Err(rejection(status, &body));
        }
        serde_json::from_slice(&body).map_err(|_| IssuerClientError::InvalidResponse(status))
    }

    async fn send(
        &self,
        endpoint: &str,
        form: &FormFields<'_>,
    ) -> Result<(StatusCode, Bytes), IssuerClientError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = Request::post(endpoint)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(Full::from(body))
            .map_err(HttpError::from)?;
        let response = self.web.send(request).await?;
        Ok((response.status(), response.into_body()))
    }
}

fn rejection(status: StatusCode, body: &[u8]) -> IssuerClientError {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) if status.is_client_error() => {
            IssuerClientError::Rejected { code: body.error, description: body.error_description }
        }
        _ => IssuerClientError::InvalidResponse(status),
    }
}
