//! Who the user is to which server: credentials, and requests that carry them.

mod address;
mod control;
mod credentials;
mod device;
mod issuer;
mod refresh;

use std::time::Duration;

use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use address::ServerAddress;
pub(super) use control::{Control, ControlError, LoginMetadata, OidcMetadata, WhoAmI};
pub(super) use credentials::{CredentialStore, Login, Logins, OidcLogin};
pub(super) use device::DeviceLogin;
pub(super) use issuer::Issuer;
pub(super) use refresh::end_of;

use super::{Error, UsageError};
use crate::net::HttpClient;

/// Longest wait for an answer from a server or an issuer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client for servers and issuers.
pub(super) fn web_client() -> Result<HttpClient, Error> {
    Ok(HttpClient::new(None, PATIENCE)?)
}

/// The server that is meant: the one named, else the one last logged in to.
pub(super) fn meant(named: Option<&str>, logins: &Logins) -> Result<ServerAddress, UsageError> {
    let address = named.or(logins.default.as_deref()).ok_or_else(|| {
        let mut text = "which server? Log in to one first: gene-registry login --server URL";
        if logins.servers().next().is_some() {
            text = "which server? Name one by --server URL";
        }
        UsageError::new(format!("{text}{}", known(logins)))
    })?;
    ServerAddress::parse(address).map_err(|error| UsageError::new(format!("--server: {error}")))
}

fn known(logins: &Logins) -> String {
    let servers: Vec<_> = logins.servers().collect();
    if servers.is_empty() {
        return String::new();
    }
    format!(". You are logged in to: {}", servers.join(", "))
}

/// A login, and the server it is for.
pub(super) struct Session {
    store: CredentialStore,
    web: HttpClient,
    pub(super) control: Control,
    pub(super) login: Login,
}

impl Session {
    /// The user's login to a server, or to the one last logged in to. A token that has expired is
    /// renewed.
    pub(super) async fn open(server: Option<&str>) -> Result<Self, Error> {
        let store = CredentialStore::of_user()?;
        let logins = store.read()?;
        let server = meant(server, &logins)?;
        let login = logins.get(&server).ok_or_else(|| {
            let how = format!("gene-registry login --server {server}");
            format!("not logged in to {server}: {how}{}", known(&logins))
        })?;
        let web = web_client()?;
        let control = Control::new(&web, &server);
        let mut session = Self { login: login.clone(), store, web, control };
        if refresh::is_due(&session.login) {
            session.renew().await?;
        }
        Ok(session)
    }

    /// Asks the control API. A token that the server does not take any more is renewed once.
    pub(super) async fn ask<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Error> {
        let once = self.control.ask(method.clone(), path, Some(&self.login.token), body).await;
        let answer = match once {
            Err(error) if is_unauthorized(&error) && refresh::is_possible(&self.login) => {
                self.renew().await?;
                self.control.ask(method, path, Some(&self.login.token), body).await
            }
            answer => answer,
        };
        answer.map_err(|error| if is_unauthorized(&error) { self.ended() } else { error.into() })
    }

    /// Whether the login goes on beyond the end of its token.
    pub(super) fn is_renewed(&self) -> bool {
        refresh::is_possible(&self.login)
    }

    async fn renew(&mut self) -> Result<(), Error> {
        if !refresh::is_possible(&self.login) {
            return Err(self.ended());
        }
        let server = &self.control.server;
        self.login = refresh::renew(&self.store, &self.web, server, &self.login.token).await?;
        Ok(())
    }

    fn ended(&self) -> Error {
        refresh::ended(&self.control.server)
    }
}

fn is_unauthorized(error: &ControlError) -> bool {
    matches!(error, ControlError::Refused(refused) if refused.status == StatusCode::UNAUTHORIZED)
}
