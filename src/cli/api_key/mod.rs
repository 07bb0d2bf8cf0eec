//! `gene-registry api-key`: a user's keys through a server's control listener, or, for operators,
//! straight on the database (`--direct`).

mod create;
mod direct;
mod expiry_arg;
mod key_client;
mod list;
mod remote;
mod revoke;
mod rotate;

use clap::{Args, Subcommand};

use self::direct::Direct;
pub(super) use self::expiry_arg::expiry;
use self::key_client::KeyClient;
use self::remote::Remote;
use super::session::Session;
use super::{ConfigFile, Error, Outcome, UsageError, block_on};

#[derive(Debug, Args)]
pub(super) struct ApiKeyCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a key; the key itself is shown once, alone on standard output
    Create(create::Create),
    /// List keys, newest first
    List(list::List),
    /// Revoke a key: every replica refuses it within two seconds
    Revoke(revoke::Revoke),
    /// Replace a key by a new one with the same settings; the old one goes on for a while
    Rotate(rotate::Rotate),
}

impl ApiKeyCommand {
    pub(super) fn run(self) -> Outcome {
        block_on(async {
            match self.action {
                Action::Create(create) => create.run().await,
                Action::List(list) => list.run().await,
                Action::Revoke(revoke) => revoke.run().await,
                Action::Rotate(rotate) => rotate.run().await,
            }
        })
    }
}

/// Where keys are kept, and how to answer.
#[derive(Debug, Args)]
struct Place {
    /// The server, by its control listener's address; without it, the one last logged in to
    #[arg(long, value_name = "URL", conflicts_with = "direct")]
    server: Option<String>,
    /// Work straight on the database (DATABASE_URL); for operators
    #[arg(long)]
    direct: bool,
    /// Whose keys, with --direct
    #[arg(long, requires = "direct")]
    owner: Option<String>,
    #[command(flatten)]
    config: ConfigFile,
    /// Write JSON; times are RFC 3339 in UTC
    #[arg(long)]
    json: bool,
}

impl Place {
    /// Access to keys; with `all`, also to those of others.
    async fn open(&self, all: bool) -> Result<Box<dyn KeyClient>, Error> {
        if !self.direct {
            let session = Session::open(self.server.as_deref()).await?;
            return Ok(Box::new(Remote::new(session, all)));
        }
        let owner = match (&self.owner, all) {
            (Some(owner), false) => Some(owner.clone()),
            (None, true) => None,
            (Some(_), true) => {
                return Err(UsageError::new("give --owner or --all, not both").into());
            }
            (None, false) => {
                let missing = "--direct needs to know whose keys: add --owner NAME";
                return Err(UsageError::new(missing).into());
            }
        };
        Ok(Box::new(Direct::new(&self.config.read()?.config.upstream, owner)?))
    }
}
