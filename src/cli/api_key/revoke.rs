//! `gene-registry api-key revoke`

use std::process::ExitCode;

use clap::Args;

use super::Place;
use super::key_client::{KeyClient, KeyError, Named, parse_prefix};
use crate::cli::show::{local, local_or_never, notice, print, print_json};
use crate::cli::{Error, Outcome, USAGE_ERROR, terminal};
use crate::keys::KeyPrefix;
use crate::keys::store::{KeyRefusal, StoredKey};

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it shows the key and asks first; in a script it does not. An unknown or ambiguous
prefix revokes nothing and ends with exit status 2. Revoking a key twice is harmless.

Examples:
  gene-registry api-key revoke --prefix gr_aB3dEf7h
  gene-registry api-key revoke --prefix aB3d --yes")]
pub(super) struct Revoke {
    #[command(flatten)]
    place: Place,
    /// The key's beginning, with or without gr_, from 4 characters on; never the whole key
    #[arg(long)]
    prefix: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Also keys of others; for operators
    #[arg(long)]
    all: bool,
}

impl Revoke {
    pub(super) async fn run(self) -> Outcome {
        let mut prefix = parse_prefix(&self.prefix)?;
        let mut key_client = self.place.open(self.all).await?;
        if !self.yes && terminal::can_be_asked() {
            let key = the_one(&mut *key_client, &prefix).await.map_err(Error::from)?;
            if !is_meant(&key)? {
                notice("Nothing was revoked.");
                return Ok(USAGE_ERROR.into());
            }
            prefix = key.prefix.parse()?;
        }
        let key = key_client.revoke(&prefix).await.map_err(Error::from)?;
        if self.place.json {
            print_json(&key)?;
        } else {
            let since = key.revoked_at.map(|at| format!(" since {}", local(at)));
            print(&format!("{} is revoked{}.\n", Named(&key), since.unwrap_or_default()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The one key that begins like this.
async fn the_one(
    key_client: &mut dyn KeyClient,
    prefix: &KeyPrefix,
) -> Result<StoredKey, KeyError> {
    let mut keys = key_client.list().await?;
    keys.retain(|key| key.prefix.starts_with(prefix.as_str()));
    KeyRefusal::unless_one(keys).map_err(KeyError::Refused)
}

/// What was revoked before needs no question: nothing will change.
fn is_meant(key: &StoredKey) -> Result<bool, Error> {
    if key.revoked_at.is_some() {
        return Ok(true);
    }
    let used = local_or_never(key.last_used_at);
    let question = format!("Revoke {}, last used: {used}? It can't be undone.", Named(key));
    Ok(terminal::agrees(&question)?)
}
