//! `gene-registry api-key update` changes the name, the rate limit or the expiry of a key.

use std::process::ExitCode;

use clap::Args;

use super::key_client::parse_prefix;
use super::key_client_args::KeyClientArgs;
use super::key_errors::KeyLabel;
use crate::cli::command::CommandResult;
use crate::cli::output::{local_or_never, print, print_json};
use crate::cli::value_parsers::{NewExpiry, expiry_or_never, label};
use crate::keys::KeyChange;

#[derive(Debug, Args)]
pub(super) struct Update {
    #[command(flatten)]
    client: KeyClientArgs,
    /// The beginning of the key: 4 to 8 characters, with or without gr_ before them; never the whole
    /// key
    #[arg(long)]
    prefix: String,
    #[command(flatten)]
    change: ChangeArgs,
    /// Include everyone's keys; for operators
    #[arg(long, conflicts_with = "owner")]
    all: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct ChangeArgs {
    /// New name of the key, up to 200 characters
    #[arg(long, value_parser = label)]
    name: Option<String>,
    /// New limit in requests per minute, 1 to 2147483647
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    rate_limit: Option<u32>,
    /// When the key expires: a duration from now (90d, 12h, 1s), a date, a time, or never
    #[arg(long, value_name = "WHEN", value_parser = expiry_or_never)]
    expires: Option<NewExpiry>,
}

impl Update {
    pub(super) async fn run(self) -> CommandResult {
        let prefix = parse_prefix(&self.prefix)?;
        let ChangeArgs { name, rate_limit, expires } = self.change;
        let change = KeyChange {
            name,
            rate_limit_per_minute: rate_limit,
            expires_at: expires.map(|NewExpiry(at)| at),
        };
        let mut key_client = self.client.open(self.all).await?;
        let key = key_client.update(&prefix, &change).await?;
        if self.client.json {
            print_json(&key)?;
        } else {
            let (limit, expires) = (key.rate_limit_per_minute, local_or_never(key.expires_at));
            let label = KeyLabel(&key);
            print(&format!("{label} now has {limit} requests a minute. Expires: {expires}.\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
