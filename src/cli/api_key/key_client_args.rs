//! The options that choose where `api-key` manages keys, and as whom.

use clap::Args;

use super::key_client::KeyClient;
use crate::cli::command::{CommandError, UsageError};
use crate::cli::config_file::ConfigFile;
use crate::cli::session::ControlSession;
use crate::cli::system_user::system_user;
use crate::keys::{AuditLog, KeyLimits, PostgresKeys};
use crate::ops::telemetry;

/// The options that all `api-key` commands have.
#[derive(Debug, Args)]
pub(super) struct KeyClientArgs {
    /// URL of the server's control listener; by default the server last logged in to
    #[arg(long, value_name = "URL", conflicts_with = "direct")]
    server: Option<String>,
    /// Work directly in the database (DATABASE_URL), without the limits of users; for operators
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
        let config = self.config.read()?.config;
        telemetry::init(&config.log)?;
        Ok(KeyClient::Database {
            store: PostgresKeys::new(&config.upstream)?,
            owner: self.owner.clone(),
            limits: KeyLimits::from_config(&config.control),
            audit_log: AuditLog::new(system_user(), "direct"),
        })
    }
}
