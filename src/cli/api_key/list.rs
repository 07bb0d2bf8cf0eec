//! `gene-registry api-key list` lists keys, newest first.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Args;

use super::key_client_args::KeyClientArgs;
use crate::cli::command::{CommandError, CommandResult};
use crate::cli::output::{Cell, Table, local, local_or_never, notice, print, print_json, sanitize};
use crate::keys::store::{Status, StoredKey};

#[derive(Debug, Args)]
#[command(after_help = "\
Times are in your time zone (TZ, or the system's); in JSON they are in UTC.

Examples:
  gene-registry api-key list
  gene-registry api-key list --json
  gene-registry api-key list --all      # everyone's keys, for operators")]
pub(super) struct List {
    #[command(flatten)]
    client: KeyClientArgs,
    /// List everyone's keys; for operators
    #[arg(long)]
    all: bool,
}

impl List {
    pub(super) async fn run(self) -> CommandResult {
        let mut key_client = self.client.open(self.all).await?;
        let keys = key_client.list().await.map_err(CommandError::from)?;
        if self.client.json {
            print_json(&keys)?;
        } else {
            print(&table(&keys, self.all).to_text())?;
            if keys.is_empty() {
                notice("No keys. Create one: gene-registry api-key create --name NAME");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(keys: &[StoredKey], with_owner: bool) -> Table {
    let mut header =
        vec!["PREFIX", "NAME", "SCOPES", "LIMIT", "CREATED", "EXPIRES", "LAST USED", "STATUS"];
    if with_owner {
        header.insert(1, "OWNER");
    }
    let mut table = Table::new(&header);
    for key in keys {
        let mut row: Vec<Cell> = vec![
            sanitize(&key.prefix).into(),
            sanitize(&key.name).into(),
            sanitize(&key.scopes.join(",")).into(),
            key.rate_limit_per_minute.to_string().into(),
            local(key.created_at).into(),
            local_or_never(key.expires_at).into(),
            local_or_never(key.last_used_at).into(),
            status(key.status),
        ];
        if with_owner {
            row.insert(1, sanitize(&key.owner).into());
        }
        table.push(row);
    }
    table
}

fn status(status: Status) -> Cell {
    let (text, colour) = match status {
        Status::Active => ("active", AnsiColor::Green),
        Status::Expired => ("expired", AnsiColor::Yellow),
        Status::Revoked => ("revoked", AnsiColor::Red),
    };
    Cell::styled(text, Style::new().fg_color(Some(colour.into())))
}
