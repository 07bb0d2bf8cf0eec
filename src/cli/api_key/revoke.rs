//! `gene-registry api-key revoke` revokes a key, on a terminal after a confirmation.

use std::process::ExitCode;

use clap::Args;

use super::key_client::{KeyClient, parse_prefix};
use super::key_client_args::KeyClientArgs;
use super::key_errors::{KeyLabel, refused};
use crate::cli::command::{CommandError, CommandResult, USAGE_ERROR};
use crate::cli::output::{local, local_or_never, notice, print, print_json};
use crate::cli::terminal;
use crate::keys::KeyPrefix;
use crate::keys::store::{KeyRefusal, StoredKey};

#[derive(Debug, Args)]
pub(super) struct Revoke {
    #[command(flatten)]
    client: KeyClientArgs,
    /// The beginning of the key: 4 to 8 characters, with or without gr_ before them; never the whole
    /// key
    #[arg(long)]
    prefix: String,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Include everyone's keys; for operators
    #[arg(long, conflicts_with = "owner")]
    all: bool,
}

impl Revoke {
    pub(super) async fn run(self) -> CommandResult {
        let mut prefix = parse_prefix(&self.prefix)?;
        let mut key_client = self.client.open(self.all).await?;
        if !self.yes && terminal::is_interactive() {
            let key = find_key(&mut key_client, &prefix).await?;
            if !is_confirmed(&key)? {
                notice("Nothing was revoked.");
                return Ok(USAGE_ERROR.into());
            }
            prefix = key.prefix.parse()?;
        }
        let key = key_client.revoke(&prefix).await?;
        if self.client.json {
            print_json(&key)?;
        } else {
            let since = key.revoked_at.map(|at| format!(" since {}", local(at)));
            print(&format!("{} is revoked{}.\n", KeyLabel(&key), since.unwrap_or_default()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The only key with this prefix.
async fn find_key(
    key_client: &mut KeyClient,
    prefix: &KeyPrefix,
) -> Result<StoredKey, CommandError> {
    let mut keys = key_client.list().await?;
    keys.retain(|key| key.prefix.starts_with(prefix.as_str()));
    KeyRefusal::unless_single(keys).map_err(|refusal| refused(refusal, key_client.list_options()))
}

/// Asks for confirmation, unless the key was revoked before.
fn is_confirmed(key: &StoredKey) -> Result<bool, CommandError> {
    if key.revoked_at.is_some() {
        return Ok(true);
    }
    let used = local_or_never(key.last_used_at);
    let question = format!("Revoke {}, last used: {used}? This cannot be undone.", KeyLabel(key));
    Ok(terminal::confirm(&question)?)
}
