//! `gene-registry logout`

use std::process::ExitCode;

use clap::Args;
use secrecy::SecretString;

use super::session::{
    CredentialStore, Issuer, Login, Logins, OidcLogin, ServerAddress, meant, web_client,
};
use super::show::notice;
use super::{Error, Outcome, block_on};
use crate::ops::error_chain;

#[derive(Debug, Args)]
#[command(after_help = "\
What an issuer gave to renew the login by is revoked there too, if the issuer can be reached and
has a way to. A token that an operator made stays good: ask the operator to remove it.

Examples:
  gene-registry logout
  gene-registry logout --server https://registry.example.org:8081
  gene-registry logout --all")]
pub(super) struct Logout {
    /// The server to log out from; without it, the one last logged in to
    #[arg(long, value_name = "URL", conflicts_with = "all")]
    server: Option<String>,
    /// Log out from all servers
    #[arg(long)]
    all: bool,
}

impl Logout {
    pub(super) fn run(self) -> Outcome {
        block_on(async {
            let store = CredentialStore::of_user()?;
            let logins = store.read()?;
            let servers = if self.all { all(&logins)? } else { vec![self.one(&logins)?] };
            if servers.is_empty() {
                notice("You are not logged in anywhere.");
            }
            for server in servers {
                log_out(&store, &server).await?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    fn one(&self, logins: &Logins) -> Result<ServerAddress, Error> {
        Ok(meant(self.server.as_deref(), logins)?)
    }
}

fn all(logins: &Logins) -> Result<Vec<ServerAddress>, Error> {
    Ok(logins.servers().map(ServerAddress::parse).collect::<Result<_, _>>()?)
}

async fn log_out(store: &CredentialStore, server: &ServerAddress) -> Result<(), Error> {
    // Removed first: what can't be revoked is at least not here any more.
    let Some(login) = store.change(|logins| logins.remove(server)).await? else {
        notice(&format!("You are not logged in to {server}."));
        return Ok(());
    };
    notice(&format!("Logged out from {server}."));
    let Login { oidc: Some(oidc), .. } = login else { return Ok(()) };
    if let Some(token) = &oidc.refresh_token {
        match forget(&oidc, token).await {
            Ok(true) => notice("The issuer has revoked what the login was renewed by."),
            Ok(false) => notice(
                "The issuer has no way to revoke what the login was renewed by; it ends by itself.",
            ),
            Err(error) => notice(&format!(
                "What the login was renewed by could not be revoked at the issuer ({}); \
                 it ends by itself.",
                error_chain(&*error)
            )),
        }
    }
    Ok(())
}

async fn forget(oidc: &OidcLogin, token: &SecretString) -> Result<bool, Error> {
    let issuer = Issuer::discover(&web_client()?, &oidc.issuer).await?;
    Ok(issuer.forget(&oidc.client_id, token).await?)
}
