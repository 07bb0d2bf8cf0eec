//! `gene-registry api-key list` lists keys, newest first.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Args;

use super::key_client_args::KeyClientArgs;
use crate::cli::canary::is_of_canary;
use crate::cli::command::CommandResult;
use crate::cli::output::{
    Table, TimeFormat, local_as, notice, print, print_json, sanitize, styled,
};
use crate::cli::terminal::output_columns;
use crate::keys::store::{Status, StoredKey};
use crate::registry::Timestamp;

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    client: KeyClientArgs,
    /// List everyone's keys; for operators
    #[arg(long, conflicts_with = "owner")]
    all: bool,
    /// List the keys of the canary, too
    #[arg(long)]
    all_keys: bool,
}

impl List {
    pub(super) async fn run(self) -> CommandResult {
        let mut key_client = self.client.open(self.all).await?;
        let mut keys = key_client.list().await?;
        if !self.all_keys {
            keys.retain(|key| !is_of_canary(&key.name, key.created_at, key.expires_at));
        }
        if self.client.json {
            print_json(&keys)?;
        } else {
            print(&key_table(&keys, self.all))?;
            if keys.is_empty() {
                notice("No keys. Create one: gene-registry api-key create --name NAME");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The table of the keys; on a terminal, as wide as that, with as much of the times as fits.
fn key_table(keys: &[StoredKey], with_owner: bool) -> String {
    let Some(columns) = output_columns() else {
        return table(keys, with_owner, TimeFormat::WithOffset).text(None);
    };
    let formats = [TimeFormat::WithOffset, TimeFormat::Minutes].into_iter();
    let fitting = formats
        .map(|format| table(keys, with_owner, format))
        .find(|table| table.fits(columns))
        .unwrap_or_else(|| table(keys, with_owner, TimeFormat::Date));
    fitting.text(Some(columns))
}

fn table(keys: &[StoredKey], with_owner: bool, format: TimeFormat) -> Table {
    let mut header =
        vec!["PREFIX", "NAME", "SCOPES", "LIMIT", "CREATED", "EXPIRES", "LAST USED", "STATUS"];
    if with_owner {
        header.insert(1, "OWNER");
    }
    let or_never =
        |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), |at| local_as(format, at));
    let row = |key: &StoredKey| {
        let mut row = vec![
            sanitize(&key.prefix),
            sanitize(&key.name),
            sanitize(&key.scopes.join(",")),
            key.rate_limit_per_minute.to_string(),
            local_as(format, key.created_at),
            or_never(key.expires_at),
            or_never(key.last_used_at),
            styled_status(key.status),
        ];
        if with_owner {
            row.insert(1, sanitize(&key.owner));
        }
        row
    };
    Table::new(&header, &["OWNER", "NAME", "SCOPES"], keys.iter().map(row).collect())
}

fn styled_status(status: Status) -> String {
    let (text, colour) = match status {
        Status::Active => ("active", AnsiColor::Green),
        Status::Expired => ("expired", AnsiColor::Yellow),
        Status::Revoked => ("revoked", AnsiColor::Red),
    };
    styled(text, Style::new().fg_color(Some(colour.into())))
}
