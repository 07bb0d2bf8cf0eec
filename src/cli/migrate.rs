//! `gene-registry migrate` creates or updates the default schema, or, for a registry that has views of
//! its own, the roles and the change log.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tokio_postgres::Client;

use super::command::{CommandResult, block_on};
use super::config_file::ConfigFile;
use super::database::connect;
use super::output::{notice, print, sanitize_lines};
use crate::default_schema::migrate::{self, Migrated};

#[derive(Debug, Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    config: ConfigFile,
    /// For a registry that has views of its own: create only these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<SchemaPart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SchemaPart {
    /// The roles, with their privileges on the views that exist
    Roles,
    /// The change log: its table, its view and the functions of its triggers
    ChangeLog,
}

impl Migrate {
    pub(super) fn run(self) -> CommandResult {
        let config = self.config.read()?.config;
        block_on(async {
            let mut client = connect(&config.upstream).await?;
            if !self.only.is_empty() {
                return create_parts(&client, &self.only).await;
            }
            let Migrated { applied, warnings } = migrate::migrate(&mut client).await?;
            warn(&warnings);
            match applied {
                0 => print("The schema is up to date.\n")?,
                _ => print(&format!(
                    "The schema is now up to date; migrations applied: {applied}.\n"
                ))?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Creates the change log first: the roles get privileges on its view.
async fn create_parts(client: &Client, parts: &[SchemaPart]) -> CommandResult {
    if parts.contains(&SchemaPart::ChangeLog) {
        migrate::create_change_log(client).await?;
        print("The change log is ready: registry_read.change.\n")?;
    }
    if parts.contains(&SchemaPart::Roles) {
        let (roles, warnings) = migrate::create_roles(client).await?;
        warn(&warnings);
        if roles.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        print(&format!("Roles with privileges in this database: {}.\n", roles.join(", ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        notice(&sanitize_lines(&format!("warning: {warning}")));
    }
}
