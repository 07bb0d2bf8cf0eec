//! An OpenID issuer: its endpoints, tokens, and the end of a login.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::address::{UnfitAddress, fit};
use crate::cli::show::sanitize;
use crate::net::{HttpClient, HttpError};

/// What is sent as a form. Never logged: some values are secret.
pub(super) type Form<'a> = Vec<(&'a str, &'a str)>;

/// An issuer whose metadata has been read.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Issuer {
    web: HttpClient,
    token: String,
    pub(super) device_authorization: Option<String>,
    revocation: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    issuer: String,
    token_endpoint: String,
    device_authorization_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
}

/// Tokens as an issuer hands them out.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Tokens {
    pub(in crate::cli) access_token: SecretString,
    token_type: String,
    /// Seconds from now.
    pub(in crate::cli) expires_in: Option<u64>,
    pub(in crate::cli) refresh_token: Option<SecretString>,
}

/// Why an issuer did not do what it was asked for.
#[derive(Debug, Error)]
pub(in crate::cli) enum IssuerError {
    #[error("the login server's address, or one it names, is not fit to be used: {0}")]
    Address(#[from] UnfitAddress),
    #[error(
        "the login server at {0} says it is another one; the registry's configuration is wrong"
    )]
    OtherIssuer(String),
    #[error("the login server does not know this way of logging in (its device flow is off)")]
    NoDeviceFlow,
    #[error("the login server cannot be asked")]
    Web(#[from] HttpError),
    #[error("the login server's answer (status {0}) makes no sense")]
    Nonsense(StatusCode),
    /// An error of RFC 6749.
    #[error("the login server refused: {}{}", sanitize(.code), shown(.description))]
    Refused { code: String, description: Option<String> },
}

fn shown(text: &Option<String>) -> String {
    text.as_deref().map(|text| format!(" ({})", sanitize(text))).unwrap_or_default()
}

#[derive(Debug, Deserialize)]
struct ErrorBody {
    error: String,
    error_description: Option<String>,
}

impl Issuer {
    /// Reads the issuer's metadata (OpenID Connect Discovery 1.0).
    pub(in crate::cli) async fn discover(
        web: &HttpClient,
        issuer: &str,
    ) -> Result<Self, IssuerError> {
        fit(issuer)?;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let metadata: Metadata = web.get_json(&url).await?;
        if metadata.issuer != issuer {
            return Err(IssuerError::OtherIssuer(sanitize(issuer)));
        }
        let others = [&metadata.device_authorization_endpoint, &metadata.revocation_endpoint];
        for endpoint in others.into_iter().flatten().chain([&metadata.token_endpoint]) {
            fit(endpoint)?;
        }
        Ok(Self {
            web: web.clone(),
            token: metadata.token_endpoint,
            device_authorization: metadata.device_authorization_endpoint,
            revocation: metadata.revocation_endpoint,
        })
    }

    /// Asks for tokens.
    pub(super) async fn tokens(&self, form: &Form<'_>) -> Result<Tokens, IssuerError> {
        let tokens: Tokens = self.post(&self.token, form).await?;
        if !tokens.token_type.eq_ignore_ascii_case("bearer") {
            return Err(IssuerError::Nonsense(StatusCode::OK));
        }
        Ok(tokens)
    }

    /// Tells the issuer that a refresh token is not needed any more (RFC 7009); whether there was
    /// a way to.
    pub(in crate::cli) async fn forget(
        &self,
        client_id: &str,
        refresh_token: &SecretString,
    ) -> Result<bool, IssuerError> {
        let Some(endpoint) = &self.revocation else { return Ok(false) };
        let form = vec![
            ("client_id", client_id),
            ("token", refresh_token.expose_secret()),
            ("token_type_hint", "refresh_token"),
        ];
        let (status, body) = self.send(endpoint, &form).await?;
        if status == StatusCode::OK { Ok(true) } else { Err(refusal(status, &body)) }
    }

    /// Posts a form; the answer is JSON.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        endpoint: &str,
        form: &Form<'_>,
    ) -> Result<T, IssuerError> {
        let (status, body) = self.send(endpoint, form).await?;
        if status != StatusCode::OK {
            return Err(refusal(status, &body));
        }
        serde_json::from_slice(&body).map_err(|_| IssuerError::Nonsense(status))
    }

    async fn send(
        &self,
        endpoint: &str,
        form: &Form<'_>,
    ) -> Result<(StatusCode, Bytes), IssuerError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = Request::post(endpoint)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(Full::from(body))
            .map_err(HttpError::from)?;
        let answer = self.web.send(request).await?;
        Ok((answer.status(), answer.into_body()))
    }
}

fn refusal(status: StatusCode, body: &[u8]) -> IssuerError {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) if status.is_client_error() => {
            IssuerError::Refused { code: body.error, description: body.error_description }
        }
        _ => IssuerError::Nonsense(status),
    }
}
