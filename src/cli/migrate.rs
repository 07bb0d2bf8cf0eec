//! `gene-registry migrate`

use std::process::ExitCode;

use clap::Args;

use super::{ConfigFile, Outcome, block_on};
use crate::upstream::postgres::{connect, schema};

#[derive(Debug, Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    config: ConfigFile,
}

impl Migrate {
    pub(super) fn run(self) -> Outcome {
        let config = self.config.read()?.config;
        block_on(async {
            let mut client = connect(&config.upstream).await?;
            let migrated = schema::migrate(&mut client).await?;
            migrated.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            match migrated.applied {
                0 => println!("The schema is up to date."),
                applied => println!("The schema is up to date now: {applied} migrations applied."),
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
