//! Logs in by the OAuth 2.0 device authorization grant (RFC 8628).

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::address::parse_confidential_url;
use super::control_client::OidcMetadata;
use super::issuer_client::{FormFields, IssuerClient, IssuerClientError, PATIENCE, Tokens};

const DEVICE_CODE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Seconds between polls if the issuer sets no interval (RFC 8628, 3.2).
const DEFAULT_INTERVAL_S: u64 = 5;
/// Seconds added to the interval by each `slow_down` (RFC 8628, 3.5).
const SLOW_DOWN_S: u64 = 5;
/// The longest poll interval, whatever the issuer says.
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// The longest wait for a login, whatever the issuer says.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// A login that the user must confirm in a browser.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct DeviceLogin {
    device_code: SecretString,
    /// The code that the page shows, or that the user types there.
    pub(in crate::cli) user_code: String,
    /// The page to open.
    pub(in crate::cli) verification_uri: String,
    /// The same page with the code in its URL.
    pub(in crate::cli) verification_uri_complete: Option<String>,
    /// Seconds that the code is valid.
    pub(in crate::cli) expires_in: u64,
    interval: Option<u64>,
}

/// Why the login failed.
#[derive(Debug, Error)]
pub(in crate::cli) enum DeviceError {
    #[error(
        "the login was denied in the browser; nothing was stored. Try again: gene-registry login"
    )]
    Denied,
    #[error(
        "the code expired before the login was confirmed; nothing was stored. Try again: \
         gene-registry login"
    )]
    Expired,
    #[error(transparent)]
    Issuer(#[from] IssuerClientError),
}

impl DeviceLogin {
    /// Begins a login.
    pub(in crate::cli) async fn begin(
        issuer: &IssuerClient,
        oidc: &OidcMetadata,
    ) -> Result<Self, IssuerClientError> {
        let endpoint = issuer.metadata.device_authorization_endpoint.as_deref();
        let endpoint = endpoint.ok_or(IssuerClientError::NoDeviceFlow)?;
        let mut form: FormFields<'_> =
            vec![("client_id", &oidc.client_id), ("scope", &oidc.scopes)];
        // Some issuers call the audience of a token `audience`, others `resource` (RFC 8707).
        form.extend(oidc.audience.as_deref().map(|audience| ("audience", audience)));
        form.extend(oidc.resource.as_deref().map(|resource| ("resource", resource)));
        let login: Self = issuer.post(endpoint, &form, PATIENCE).await?;
        let pages = login.verification_uri_complete.iter().chain([&login.verification_uri]);
        for page in pages {
            parse_confidential_url(page)?;
        }
        Ok(login)
    }

    /// Polls the issuer until the user has confirmed or denied, or the code has expired.
    pub(in crate::cli) async fn wait(
        &self,
        issuer: &IssuerClient,
        oidc: &OidcMetadata,
    ) -> Result<Tokens, DeviceError> {
        let mut form: FormFields<'_> = vec![
            ("grant_type", DEVICE_CODE_GRANT),
            ("device_code", self.device_code.expose_secret()),
            ("client_id", &oidc.client_id),
        ];
        form.extend(oidc.resource.as_deref().map(|resource| ("resource", resource)));
        let end = Instant::now() + Duration::from_secs(self.expires_in).min(MAX_WAIT);
        let mut interval = Duration::from_secs(self.interval.unwrap_or(DEFAULT_INTERVAL_S).max(1));
        let mut not_before = Instant::now();
        loop {
            let next = not_before.max(Instant::now() + interval.min(MAX_INTERVAL));
            if next > end {
                sleep(end.saturating_duration_since(Instant::now())).await;
                return Err(DeviceError::Expired);
            }
            sleep(next.saturating_duration_since(Instant::now())).await;
            match issuer.tokens(&form, Duration::ZERO).await {
                Ok(tokens) => return Ok(tokens),
                Err(IssuerClientError::Rejected { code, description }) => match code.as_str() {
                    "authorization_pending" => {}
                    "slow_down" => interval += Duration::from_secs(SLOW_DOWN_S),
                    "access_denied" => return Err(DeviceError::Denied),
                    "expired_token" => return Err(DeviceError::Expired),
                    _ => return Err(IssuerClientError::Rejected { code, description }.into()),
                },
                Err(IssuerClientError::Busy { retry_after }) => {
                    not_before = Instant::now() + retry_after;
                    interval += Duration::from_secs(SLOW_DOWN_S);
                }
                // Exponential back-off, as RFC 8628, 3.5, recommends.
                Err(error) if error.is_temporary() => {
                    interval = interval.saturating_mul(2).min(MAX_INTERVAL);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
