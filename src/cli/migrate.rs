//! `gene-registry migrate` creates or updates the default schema.

use std::process::ExitCode;

use super::command::{CommandResult, block_on};
use super::config_file::ConfigFile;
use super::output::{notice, print, sanitize_lines};
use crate::default_schema::migrate;
use crate::upstream::postgres::connect;

pub(super) fn run(config: &ConfigFile) -> CommandResult {
    let config = config.read()?.config;
    block_on(async {
        let mut client = connect(&config.upstream).await?;
        let migrated = migrate::migrate(&mut client).await?;
        for warning in &migrated.warnings {
            notice(&sanitize_lines(&format!("warning: {warning}")));
        }
        match migrated.applied {
            0 => print("The schema is up to date.\n")?,
            applied => {
                print(&format!("The schema is now up to date; migrations applied: {applied}.\n"))?
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}
