//! `gene-registry api-key rotate` replaces a key with a new one.

use std::process::ExitCode;

use clap::Args;

use super::create::print_new_key;
use super::key_client::parse_prefix;
use super::key_client_args::KeyClientArgs;
use super::key_errors::KeyLabel;
use crate::cli::command::CommandResult;
use crate::cli::output::{local_or_never, notice, sanitize, sanitize_json};
use crate::cli::value_parsers::overlap;

#[derive(Debug, Args)]
pub(super) struct Rotate {
    #[command(flatten)]
    client: KeyClientArgs,
    /// The beginning of the key: 4 to 8 characters, with or without gr_ before them; never the whole
    /// key
    #[arg(long)]
    prefix: String,
    /// How long the old key still works, up to 365 days: 24h, 7d, 0s
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = overlap)]
    overlap: u32,
    /// Include everyone's keys; for operators
    #[arg(long, conflicts_with = "owner")]
    all: bool,
}

impl Rotate {
    pub(super) async fn run(self) -> CommandResult {
        let prefix = parse_prefix(&self.prefix)?;
        let mut key_client = self.client.open(self.all).await?;
        let rotated = key_client.rotate(&prefix, self.overlap).await?;
        if self.client.json {
            print_new_key(&sanitize_json(&serde_json::to_string(&rotated)?), &rotated.created)?;
        } else {
            let (new, old) = (&rotated.created.stored, &rotated.replaced);
            let expires = local_or_never(old.expires_at);
            notice(&format!(
                "{} replaces {}, which expires {expires}.\nThe new key is shown only once:",
                KeyLabel(new),
                sanitize(&old.prefix)
            ));
            print_new_key(&sanitize(&rotated.created.key), &rotated.created)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
