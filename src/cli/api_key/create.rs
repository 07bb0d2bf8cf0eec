//! `gene-registry api-key create` creates a key and shows it once.

use std::process::ExitCode;

use clap::Args;

use super::key_client::CreatedKey;
use super::key_client_args::KeyClientArgs;
use super::key_errors::{KeyLabel, useless};
use crate::cli::command::{CommandError, CommandResult, UsageError};
use crate::cli::output::{local, notice, print_secret, sanitize, sanitize_json};
use crate::cli::value_parsers::{expiry, label, rate_limit, scope};
use crate::keys::key_rules::MAX_SCOPES;
use crate::keys::{KeySpec, READ_SCOPE, UselessKey};
use crate::registry::{ApiKeyRecord, Timestamp};

#[derive(Debug, Args)]
pub(super) struct Create {
    #[command(flatten)]
    client: KeyClientArgs,
    /// Name of the key, up to 200 characters
    #[arg(long, value_parser = label)]
    name: String,
    /// What the key may do; may be given up to 16 times
    #[arg(long = "scope", default_value = READ_SCOPE, value_parser = scope)]
    scopes: Vec<String>,
    /// When the key expires: a duration (90d, 12h, 1s), a date or a time; by default never
    #[arg(long, value_name = "WHEN", value_parser = expiry)]
    expires: Option<Timestamp>,
    /// Requests per minute, 1 to 2147483647 (0 with --block)
    #[arg(long, default_value_t = ApiKeyRecord::DEFAULT_RATE_LIMIT, value_parser = rate_limit)]
    rate_limit: u32,
    /// Create the key even if nobody can use it: with the rate limit 0, or with unknown scopes
    #[arg(long)]
    block: bool,
}

impl Create {
    pub(super) async fn run(self) -> CommandResult {
        if self.scopes.len() > MAX_SCOPES {
            let text = format!("--scope: at most {MAX_SCOPES} scopes; nothing was changed");
            return Err(UsageError::new(text).into());
        }
        if self.rate_limit == 0 && !self.block {
            return Err(useless(UselessKey::NoRequests));
        }
        // Only here: the keys of existing owners can be managed whatever the owners' names are.
        if let Some(owner) = &self.client.owner {
            label(owner).map_err(|error| UsageError::new(format!("--owner: {error}")))?;
        }
        let mut key_client = self.client.open(false).await?;
        let spec = KeySpec {
            name: self.name,
            scopes: self.scopes,
            rate_limit_per_minute: self.rate_limit,
            expires_at: self.expires,
        };
        let created = key_client.create(spec, self.block).await?;
        if self.client.json {
            print_new_key(&sanitize_json(&serde_json::to_string(&created)?), &created)?;
        } else {
            let owner = sanitize(&created.stored.owner);
            let expires = created.stored.expires_at.map(|at| format!(" It expires {}.", local(at)));
            notice(&format!(
                "Created {} for {owner}.{} The key is shown only once:",
                KeyLabel(&created.stored),
                expires.unwrap_or_default()
            ));
            print_new_key(&sanitize(&created.key), &created)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes `text`, which holds the plain key. If that fails, nobody has seen the key.
pub(super) fn print_new_key(text: &str, created: &CreatedKey) -> Result<(), CommandError> {
    print_secret(text).map_err(|error| {
        let prefix = sanitize(&created.stored.prefix);
        format!(
            "{error}. The new key was created, but nobody has seen it. Revoke it: gene-registry \
             api-key revoke --prefix {prefix}"
        )
        .into()
    })
}
