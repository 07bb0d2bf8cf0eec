//! Renews expired tokens by refresh tokens.

use jiff::SignedDuration;
use secrecy::{ExposeSecret, SecretString};

use super::address::ServerAddress;
use super::credentials::{CredentialStore, Login, OidcLogin};
use super::issuer_client::{FormFields, IssuerClient, IssuerClientError, PATIENCE, Tokens};
use crate::cli::command::CommandError;
use crate::net::HttpClient;
use crate::registry::Timestamp;

/// A token that expires sooner might expire before the request arrives.
const MARGIN: SignedDuration = SignedDuration::from_secs(30);

/// Whether the token has expired or, if it can be renewed, is about to.
pub(super) fn is_due(login: &Login) -> bool {
    login.expires_at.is_some_and(|at| at <= Timestamp::now() + MARGIN)
        && (login.is_renewable() || has_expired(login))
}

fn has_expired(login: &Login) -> bool {
    login.expires_at.is_some_and(|at| at <= Timestamp::now())
}

/// The error that asks the user to log in again.
pub(super) fn login_expired(server: &ServerAddress) -> CommandError {
    format!(
        "your login to {server} has expired. Log in again: gene-registry login --server {server}"
    )
    .into()
}

/// Replaces the token `old` and stores the new one. An issuer that rotates refresh tokens accepts
/// each one once, so the lock is held from reading the old refresh token to storing the new one. If
/// another process has renewed the login meanwhile, returns that login.
pub(super) async fn renew(
    store: &CredentialStore,
    web: &HttpClient,
    server: &ServerAddress,
    old: &SecretString,
) -> Result<Login, CommandError> {
    let locked = store.lock().await?;
    let mut logins = store.read()?;
    let login = logins.get_mut(server).ok_or_else(|| login_expired(server))?;
    if login.token.expose_secret() != old.expose_secret() && !has_expired(login) {
        return Ok(login.clone());
    }
    let Some(oidc) = login.oidc.as_mut() else { return Err(login_expired(server)) };
    let tokens = match exchange(web, oidc).await {
        Err(IssuerClientError::Rejected { code, .. }) if code == "invalid_grant" => {
            return Err(login_expired(server));
        }
        tokens => tokens?,
    };
    login.expires_at = tokens.expiry();
    login.token = tokens.access_token;
    oidc.refresh_token = tokens.refresh_token.or(oidc.refresh_token.take());
    let login = login.clone();
    locked.write(&logins)?;
    Ok(login)
}

async fn exchange(web: &HttpClient, oidc: &OidcLogin) -> Result<Tokens, IssuerClientError> {
    let issuer = IssuerClient::discover(web, &oidc.issuer).await?;
    let mut form: FormFields<'_> =
        vec![("grant_type", "refresh_token"), ("client_id", &oidc.client_id)];
    let token = oidc.refresh_token.as_ref().map(ExposeSecret::expose_secret);
    form.extend(token.map(|token| ("refresh_token", token)));
    form.extend(oidc.resource.as_deref().map(|resource| ("resource", resource)));
    issuer.tokens(&form, PATIENCE).await
}
