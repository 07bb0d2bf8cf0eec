//! `gene-registry config`

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{ConfigFile, Outcome};
use crate::app;

#[derive(Debug, Args)]
pub(super) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check the configuration: exit status 0, or 1 with every fault named
    Check(ConfigFile),
    /// Print the effective values, secrets masked, each with where it came from
    Print(ConfigFile),
}

impl ConfigCommand {
    pub(super) fn run(self) -> Outcome {
        match self.action {
            Action::Check(file) => {
                app::load_config(file.path())?;
                println!("The configuration is good.");
            }
            Action::Print(file) => {
                for value in file.read()?.effective() {
                    println!("{} = {}  # {}", value.key, value.value, value.source);
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
