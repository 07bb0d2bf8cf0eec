//! Requests to the control API on behalf of a logged-in user.

use std::time::Duration;

use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::control_client::{ControlClient, ControlClientError};
use super::credentials::{CredentialStore, Login};
use super::refresh;
use super::resolve_server::{list_logins, resolve_server};
use crate::cli::command::CommandError;
use crate::net::HttpClient;

/// Longest wait for the response of a server or an issuer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// An HTTP client for servers and issuers.
pub(in crate::cli) fn web_client() -> Result<HttpClient, CommandError> {
    Ok(HttpClient::new(None, REQUEST_TIMEOUT)?)
}

/// A login and the client of its server.
pub(in crate::cli) struct ControlSession {
    store: CredentialStore,
    web: HttpClient,
    pub(in crate::cli) control: ControlClient,
    pub(in crate::cli) login: Login,
}

impl ControlSession {
    /// Opens the stored login to `server`, by default the server last logged in to. Renews a token
    /// that has expired.
    pub(in crate::cli) async fn open(server: Option<&str>) -> Result<Self, CommandError> {
        let store = CredentialStore::of_user()?;
        let logins = store.read()?;
        let server = resolve_server(server, &logins)?;
        let login = logins.get(&server).ok_or_else(|| {
            let remedy = format!("Log in: gene-registry login --server {server}");
            format!("not logged in to {server}. {remedy}{}", list_logins(&logins))
        })?;
        let web = web_client()?;
        let control = ControlClient::new(&web, &server);
        let mut session = Self { login: login.clone(), store, web, control };
        if refresh::is_due(&session.login) {
            session.renew().await?;
        }
        Ok(session)
    }

    /// Sends a request to the control API. If the server rejects the token, renews it and tries
    /// once more.
    pub(in crate::cli) async fn send<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, CommandError> {
        let first = self.control.send(method.clone(), path, Some(&self.login.token), body).await;
        let is_rejected = |error: &ControlClientError| error.has_status(StatusCode::UNAUTHORIZED);
        let result = match first {
            Err(error) if is_rejected(&error) && self.login.is_renewable() => {
                self.renew().await?;
                self.control.send(method, path, Some(&self.login.token), body).await
            }
            result => result,
        };
        result.map_err(|error| if is_rejected(&error) { self.expired() } else { error.into() })
    }

    async fn renew(&mut self) -> Result<(), CommandError> {
        if !self.login.is_renewable() {
            return Err(self.expired());
        }
        let server = &self.control.server;
        self.login = refresh::renew(&self.store, &self.web, server, &self.login.token).await?;
        Ok(())
    }

    fn expired(&self) -> CommandError {
        refresh::login_expired(&self.control.server)
    }
}
