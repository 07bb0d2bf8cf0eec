//! `gene-registry api-key rotate`

use std::process::ExitCode;

use clap::Args;

use super::create::print_new_key;
use super::key_client::{Named, parse_prefix};
use super::{Place, expiry_arg};
use crate::cli::show::{local_or_never, notice, sanitize_json};
use crate::cli::{Error, Outcome};

#[derive(Debug, Args)]
#[command(after_help = "\
The new key has the owner, name, scopes, limit and lifetime of the old one. Put it in place while
both are good.

A key that was rotated before is not rotated again while the key that took its place is good: if the
new key was lost, rotate that one, by the prefix that the message names. Once it has ended or was
revoked, the old key can be rotated again, with its first lifetime, as long as it is good itself.

Examples:
  gene-registry api-key rotate --prefix gr_aB3dEf7h
  KEY=$(gene-registry api-key rotate --prefix gr_aB3dEf7h --overlap 7d)
  gene-registry api-key rotate --prefix gr_aB3dEf7h --overlap 0s   # the old one ends at once")]
pub(super) struct Rotate {
    #[command(flatten)]
    place: Place,
    /// The key's beginning, with or without gr_, from 4 characters on; never the whole key
    #[arg(long)]
    prefix: String,
    /// How long the old key goes on, up to 365 days: 24h, 7d, 0s
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = expiry_arg::overlap)]
    overlap: u32,
    /// Also keys of others; for operators
    #[arg(long)]
    all: bool,
}

impl Rotate {
    pub(super) async fn run(self) -> Outcome {
        let prefix = parse_prefix(&self.prefix)?;
        let mut key_client = self.place.open(self.all).await?;
        let rotated = key_client.rotate(&prefix, self.overlap).await.map_err(Error::from)?;
        if self.place.json {
            print_new_key(&sanitize_json(&serde_json::to_string(&rotated)?), &rotated.created)?;
        } else {
            let (new, old) = (&rotated.created.stored, &rotated.replaced);
            let ends = local_or_never(old.expires_at);
            notice(&format!(
                "{} takes the place of {}, which ends {ends}.\nThe new key is shown this once:",
                Named(new),
                old.prefix
            ));
            print_new_key(&rotated.created.key, &rotated.created)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
