//! `gene-registry api-key create`

use std::process::ExitCode;

use clap::Args;

use super::key_client::{Created, Named};
use super::{Place, expiry_arg};
use crate::cli::show::{local, notice, print_secret, sanitize, sanitize_json};
use crate::cli::{Error, Outcome, UsageError};
use crate::keys::key_rules::{MAX_SCOPES, SCOPE, is_scope};
use crate::keys::{KeySpec, READ_SCOPE};
use crate::registry::{ApiKeyRecord, LABEL, Timestamp, is_label};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gene-registry api-key create --name laptop
  KEY=$(gene-registry api-key create --name ci --expires 90d)
  gene-registry api-key create --name dashboard --rate-limit 600 --json")]
pub(super) struct Create {
    #[command(flatten)]
    place: Place,
    /// What the key is called, up to 200 characters
    #[arg(long, value_parser = name)]
    name: String,
    /// What the key may do; can be given up to 16 times
    #[arg(long = "scope", default_value = READ_SCOPE, value_parser = scope)]
    scopes: Vec<String>,
    /// When the key ends: a duration (90d, 12h, 1s), a date or a time; without it, never
    #[arg(long, value_name = "WHEN", value_parser = expiry_arg::expiry)]
    expires: Option<Timestamp>,
    /// Requests a minute, 0 to 2147483647
    #[arg(long, default_value_t = ApiKeyRecord::DEFAULT_RATE_LIMIT,
          value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
    rate_limit: u32,
}

impl Create {
    pub(super) async fn run(self) -> Outcome {
        if self.scopes.len() > MAX_SCOPES {
            return Err(UsageError::new(format!("--scope: {MAX_SCOPES} at most")).into());
        }
        // Only here: keys of owners who are there already, whatever their names, can be managed.
        if self.place.owner.as_deref().is_some_and(|owner| !is_label(owner)) {
            return Err(UsageError::new(format!("--owner: expected {LABEL}")).into());
        }
        let mut key_client = self.place.open(false).await?;
        let spec = KeySpec {
            name: self.name,
            scopes: self.scopes,
            rate_limit_per_minute: self.rate_limit,
            expires_at: self.expires,
        };
        let created = key_client.create(spec).await.map_err(Error::from)?;
        if self.place.json {
            print_new_key(&sanitize_json(&serde_json::to_string(&created)?), &created)?;
        } else {
            let owner = sanitize(&created.stored.owner);
            let ends = created.stored.expires_at.map(|at| format!(" It ends {}.", local(at)));
            notice(&format!(
                "Created {} for {owner}.{} The key is shown this once:",
                Named(&created.stored),
                ends.unwrap_or_default()
            ));
            print_new_key(&created.key, &created)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes what holds the plain key. If it can't be written, nobody will ever see the key.
pub(super) fn print_new_key(text: &str, created: &Created) -> Result<(), Error> {
    print_secret(text).map_err(|error| {
        let prefix = sanitize(&created.stored.prefix);
        format!(
            "the key was made, but could not be written ({error}). Nobody has seen it; revoke it: \
             gene-registry api-key revoke --prefix {prefix}"
        )
        .into()
    })
}

fn name(text: &str) -> Result<String, String> {
    is_label(text).then(|| text.to_owned()).ok_or_else(|| format!("expected {LABEL}"))
}

fn scope(text: &str) -> Result<String, String> {
    let wrong = || format!("expected {SCOPE}; there is one at present: {READ_SCOPE}");
    is_scope(text).then(|| text.to_owned()).ok_or_else(wrong)
}
