//! The OAuth 2.0 device authorization grant (RFC 8628).

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::control::OidcMetadata;
use super::issuer::{Form, Issuer, IssuerError, Tokens};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Seconds between questions where the issuer names none (RFC 8628, 3.2).
const INTERVAL_S: u64 = 5;
/// Seconds more after each `slow_down` (RFC 8628, 3.5).
const SLOWER_S: u64 = 5;
/// Longest pause, and longest time that a login is waited for, whatever the issuer says.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
const LONGEST_LOGIN: Duration = Duration::from_secs(3600);

/// A login that a person is to agree to in a browser.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct DeviceLogin {
    device_code: SecretString,
    /// What the person sees there, or types.
    pub(in crate::cli) user_code: String,
    /// The page to open.
    pub(in crate::cli) verification_uri: String,
    /// The same with the code in it.
    pub(in crate::cli) verification_uri_complete: Option<String>,
    /// Seconds that the code holds.
    pub(in crate::cli) expires_in: u64,
    interval: Option<u64>,
}

/// Why a person was not logged in.
#[derive(Debug, Error)]
pub(in crate::cli) enum DeviceError {
    #[error(
        "the login was refused in the browser; nothing was kept. To try again: gene-registry login"
    )]
    Denied,
    #[error(
        "nobody agreed before the code expired; nothing was kept. To try again: gene-registry login"
    )]
    Expired,
    #[error(transparent)]
    Issuer(#[from] IssuerError),
}

impl DeviceLogin {
    /// Begins a login.
    pub(in crate::cli) async fn begin(
        issuer: &Issuer,
        oidc: &OidcMetadata,
    ) -> Result<Self, IssuerError> {
        let endpoint = issuer.device_authorization.as_deref().ok_or(IssuerError::NoDeviceFlow)?;
        let mut form: Form<'_> = vec![("client_id", &oidc.client_id), ("scope", &oidc.scopes)];
        // Some issuers choose whom a token is for by this name, others by the standard's.
        form.extend(oidc.audience.as_deref().map(|audience| ("audience", audience)));
        form.extend(oidc.resource.as_deref().map(|resource| ("resource", resource)));
        let login: Self = issuer.post(endpoint, &form).await?;
        let pages = login.verification_uri_complete.iter().chain([&login.verification_uri]);
        for page in pages {
            super::address::fit(page)?;
        }
        Ok(login)
    }

    /// Waits until the person has agreed or refused, or the code has expired.
    pub(in crate::cli) async fn wait(
        &self,
        issuer: &Issuer,
        oidc: &OidcMetadata,
    ) -> Result<Tokens, DeviceError> {
        let mut form: Form<'_> = vec![
            ("grant_type", GRANT),
            ("device_code", self.device_code.expose_secret()),
            ("client_id", &oidc.client_id),
        ];
        form.extend(oidc.resource.as_deref().map(|resource| ("resource", resource)));
        let end = Instant::now() + Duration::from_secs(self.expires_in).min(LONGEST_LOGIN);
        let mut pause = Duration::from_secs(self.interval.unwrap_or(INTERVAL_S).max(1));
        loop {
            let next = Instant::now() + pause.min(LONGEST_INTERVAL);
            if next > end {
                sleep(end.saturating_duration_since(Instant::now())).await;
                return Err(DeviceError::Expired);
            }
            sleep(next.saturating_duration_since(Instant::now())).await;
            match judge(issuer.tokens(&form).await)? {
                Step::Done(tokens) => return Ok(tokens),
                Step::Again => {}
                Step::Slower => pause += Duration::from_secs(SLOWER_S),
                Step::MuchSlower => pause = pause.saturating_mul(2).min(LONGEST_INTERVAL),
            }
        }
    }
}

enum Step {
    Done(Tokens),
    Again,
    Slower,
    /// The issuer could not be reached (RFC 8628, 3.5, asks for fewer questions then).
    MuchSlower,
}

fn judge(answer: Result<Tokens, IssuerError>) -> Result<Step, DeviceError> {
    let error = match answer {
        Ok(tokens) => return Ok(Step::Done(tokens)),
        Err(error) => error,
    };
    match &error {
        IssuerError::Refused { code, .. } => match code.as_str() {
            "authorization_pending" => Ok(Step::Again),
            "slow_down" => Ok(Step::Slower),
            "access_denied" => Err(DeviceError::Denied),
            "expired_token" => Err(DeviceError::Expired),
            _ => Err(error.into()),
        },
        IssuerError::Web(_) => Ok(Step::MuchSlower),
        IssuerError::Nonsense(status) if status.is_server_error() => Ok(Step::MuchSlower),
        _ => Err(error.into()),
    }
}
