//! New tokens for old ones.

use std::time::Duration;

use jiff::SignedDuration;
use secrecy::{ExposeSecret, SecretString};

use super::credentials::{CredentialStore, Login, OidcLogin};
use super::issuer::{Form, Issuer, IssuerError, Tokens};
use super::{HttpClient, ServerAddress};
use crate::cli::Error;
use crate::registry::Timestamp;

/// A token that ends sooner than this might end on its way.
const MARGIN: SignedDuration = SignedDuration::from_secs(30);

/// Whether the token has ended or is about to.
pub(super) fn is_due(login: &Login) -> bool {
    login.expires_at.is_some_and(|at| at <= Timestamp::now() + MARGIN)
        && (is_possible(login) || has_ended(login))
}

fn has_ended(login: &Login) -> bool {
    login.expires_at.is_some_and(|at| at <= Timestamp::now())
}

/// Whether an issuer gave something to get another token by.
pub(super) fn is_possible(login: &Login) -> bool {
    login.oidc.as_ref().is_some_and(|oidc| oidc.refresh_token.is_some())
}

/// The user has to log in again.
pub(super) fn ended(server: &ServerAddress) -> Error {
    format!("your login to {server} has ended: gene-registry login --server {server}").into()
}

/// Another token instead of `old`. An issuer that rotates refresh tokens takes each one once, so
/// the lock is held from reading the old one to keeping the new one; whoever had to wait for it
/// finds what the other process has got.
pub(super) async fn renew(
    store: &CredentialStore,
    web: &HttpClient,
    server: &ServerAddress,
    old: &SecretString,
) -> Result<Login, Error> {
    let locked = store.lock().await?;
    let mut logins = store.read()?;
    let login = logins.get_mut(server).ok_or_else(|| ended(server))?;
    if login.token.expose_secret() != old.expose_secret() && !has_ended(login) {
        return Ok(login.clone());
    }
    let Some(oidc) = login.oidc.as_mut() else { return Err(ended(server)) };
    let tokens = match exchange(web, oidc).await {
        Err(IssuerError::Refused { code, .. }) if code == "invalid_grant" => {
            return Err(ended(server));
        }
        tokens => tokens?,
    };
    login.expires_at = end_of(&tokens);
    login.token = tokens.access_token;
    if let (Some(oidc), Some(next)) = (login.oidc.as_mut(), tokens.refresh_token) {
        oidc.refresh_token = Some(next);
    }
    let login = login.clone();
    locked.write(&logins)?;
    Ok(login)
}

async fn exchange(web: &HttpClient, oidc: &OidcLogin) -> Result<Tokens, IssuerError> {
    let issuer = Issuer::discover(web, &oidc.issuer).await?;
    let token = oidc.refresh_token.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default();
    let mut form: Form<'_> = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", token),
        ("client_id", &oidc.client_id),
    ];
    form.extend(oidc.resource.as_deref().map(|resource| ("resource", resource)));
    issuer.tokens(&form).await
}

/// When a token that has just been given ends, as far as its issuer says.
pub(in crate::cli) fn end_of(tokens: &Tokens) -> Option<Timestamp> {
    let left = SignedDuration::try_from(Duration::from_secs(tokens.expires_in?)).ok()?;
    Timestamp::now().checked_add(left).ok()
}
