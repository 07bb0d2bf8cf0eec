//! Sends requests to an OpenID issuer: discovery, tokens, revocation.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode, header};
use jiff::SignedDuration;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::address::{AddressError, parse_confidential_url};
use super::retry_after::requested_pause;
use crate::cli::output::{notice, sanitize};
use crate::net::{HttpClient, HttpError};
use crate::registry::Timestamp;

/// How long a request is repeated while the issuer receives too many.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

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
    /// It asks to wait (429, or 503 with `Retry-After`).
    #[error("the login server receives too many requests; try again in {} s", .retry_after.as_secs())]
    Busy { retry_after: Duration },
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
        let request = Request::get(url).header(header::ACCEPT, "application/json");
        let request = request.body(Full::default()).map_err(HttpError::from)?;
        let metadata: IssuerMetadata = json_body(&send(web, &request, PATIENCE).await?)?;
        if metadata.issuer != issuer {
            return Err(IssuerClientError::OtherIssuer(sanitize(issuer)));
        }
        let others = [&metadata.device_authorization_endpoint, &metadata.revocation_endpoint];
        for endpoint in others.into_iter().flatten().chain([&metadata.token_endpoint]) {
            parse_confidential_url(endpoint)?;
        }
        Ok(Self { web: web.clone(), metadata })
    }

    /// Requests tokens. While the issuer is busy, repeats the request for as long as `patience`.
    pub(super) async fn tokens(
        &self,
        form: &FormFields<'_>,
        patience: Duration,
    ) -> Result<Tokens, IssuerClientError> {
        let tokens: Tokens = self.post(&self.metadata.token_endpoint, form, patience).await?;
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
        let response = self.send_form(endpoint, &form, PATIENCE).await?;
        if response.status() == StatusCode::OK { Ok(true) } else { Err(rejection(&response)) }
    }

    /// Posts a form and parses the JSON response. Repeats it as [`tokens`](Self::tokens) does.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        endpoint: &str,
        form: &FormFields<'_>,
        patience: Duration,
    ) -> Result<T, IssuerClientError> {
        json_body(&self.send_form(endpoint, form, patience).await?)
    }

    async fn send_form(
        &self,
        endpoint: &str,
        form: &FormFields<'_>,
        patience: Duration,
    ) -> Result<Response<Bytes>, IssuerClientError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = Request::post(endpoint)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(Full::from(body))
            .map_err(HttpError::from)?;
        send(&self.web, &request, patience).await
    }
}

/// Sends a request. While the issuer is busy, waits as long as it asks and repeats the request, but
/// not for longer than `patience`.
async fn send(
    web: &HttpClient,
    request: &Request<Full<Bytes>>,
    patience: Duration,
) -> Result<Response<Bytes>, IssuerClientError> {
    let end = Instant::now() + patience;
    loop {
        let response = web.send(request.clone()).await?;
        let Some(retry_after) = requested_pause(&response) else { return Ok(response) };
        if Instant::now() + retry_after > end {
            return Err(IssuerClientError::Busy { retry_after });
        }
        let seconds = retry_after.as_secs();
        notice(&format!("The login server receives too many requests; waiting for {seconds} s."));
        sleep(retry_after).await;
    }
}

fn json_body<T: DeserializeOwned>(response: &Response<Bytes>) -> Result<T, IssuerClientError> {
    if response.status() != StatusCode::OK {
        return Err(rejection(response));
    }
    let parsed = serde_json::from_slice(response.body());
    parsed.map_err(|_| IssuerClientError::InvalidResponse(StatusCode::OK))
}

fn rejection(response: &Response<Bytes>) -> IssuerClientError {
    let status = response.status();
    match serde_json::from_slice::<ErrorBody>(response.body()) {
        Ok(body) if status.is_client_error() => {
            IssuerClientError::Rejected { code: body.error, description: body.error_description }
        }
        _ => IssuerClientError::InvalidResponse(status),
    }
}
