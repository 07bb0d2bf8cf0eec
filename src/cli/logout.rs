//! `gene-registry logout` removes stored logins and revokes their refresh tokens.

use std::process::ExitCode;

use clap::Args;
use secrecy::SecretString;

use super::command::{CommandError, CommandResult, block_on};
use super::output::{notice, sanitize_lines};
use super::session::{
    CredentialStore, IssuerClient, Login, OidcLogin, ServerAddress, resolve_server, web_client,
};
use crate::ops::error_chain;

#[derive(Debug, Args)]
pub(super) struct Logout {
    /// The server to log out from; by default the server last logged in to
    #[arg(long, value_name = "URL", conflicts_with = "all")]
    server: Option<String>,
    /// Log out from all servers
    #[arg(long)]
    all: bool,
}

impl Logout {
    pub(super) fn run(self) -> CommandResult {
        block_on(async {
            let store = CredentialStore::of_user()?;
            let logins = store.read()?;
            let servers = if self.all {
                logins.servers().map(ServerAddress::parse).collect::<Result<_, _>>()?
            } else {
                vec![resolve_server(self.server.as_deref(), &logins)?]
            };
            if servers.is_empty() {
                notice("You are not logged in to any server.");
            }
            for server in servers {
                log_out(&store, &server).await?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

async fn log_out(store: &CredentialStore, server: &ServerAddress) -> Result<(), CommandError> {
    // Removed first: if the revocation fails, the login is at least no longer stored here.
    let Some(login) = store.change(|logins| logins.remove(server)).await? else {
        notice(&format!("You are not logged in to {server}."));
        return Ok(());
    };
    notice(&format!("Logged out from {server}."));
    let Login { oidc: Some(oidc), .. } = login else { return Ok(()) };
    if let Some(token) = &oidc.refresh_token {
        match revoke(&oidc, token).await {
            Ok(true) => notice("The issuer has revoked the refresh token."),
            Ok(false) => notice(
                "The issuer does not support revocation; the refresh token expires by itself.",
            ),
            Err(error) => notice(&sanitize_lines(&format!(
                "The issuer could not revoke the refresh token ({}); it expires by itself.",
                error_chain(&*error)
            ))),
        }
    }
    Ok(())
}

async fn revoke(oidc: &OidcLogin, token: &SecretString) -> Result<bool, CommandError> {
    let issuer = IssuerClient::discover(&web_client()?, &oidc.issuer).await?;
    Ok(issuer.revoke(&oidc.client_id, token).await?)
}
