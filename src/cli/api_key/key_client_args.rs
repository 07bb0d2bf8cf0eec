//! The options that choose where `api-key` manages keys, and as whom.

use clap::Args;

use super::key_client::KeyClient;
use crate::cli::command::{CommandError, UsageError};
use crate::cli::config_file::ConfigFile;
use crate::cli::session::ControlSession;
use crate::keys::PostgresKeys;

/// The options that all `api-key` commands have.
#[derive(Debug, Args)]
pub(super) struct KeyClientArgs {
    /// URL of the server's control listener; by default the server last logged in to
    #[arg(long, value_name = "URL", conflicts_with = "direct")]
    server: Option<String>,
    /// Work directly in the database (DATABASE_URL); for operators
    #[arg(long)]
    direct: bool,
    /// The owner of the keys, with --direct
    #[arg(long, requires = "direct")]
    pub(super) owner: Option<String>,
    #[command(flatten)]
    config: ConfigFile,
    /// Write JSON; times are RFC 3339 in UTC
    #[arg(long)]
    pub(super) json: bool,
}

impl KeyClientArgs {
    /// Opens access to the user's keys; with `all`, to everyone's.
    pub(super) async fn open(&self, all: bool) -> Result<KeyClient, CommandError> {
        if !self.direct {
            let session = Box::new(ControlSession::open(self.server.as_deref()).await?);
            return Ok(KeyClient::Server { session, all });
        }
        if self.owner.is_none() && !all {
            let missing = "--direct needs the owner of the keys: add --owner NAME";
            return Err(UsageError::new(missing).into());
        }
        let store = PostgresKeys::new(&self.config.read()?.config.upstream)?;
        Ok(KeyClient::Database { store, owner: self.owner.clone() })
    }
}
