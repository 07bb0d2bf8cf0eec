//! `gene-registry config`

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::show::print;
use super::{ConfigFile, Outcome};
use crate::app;
use crate::config::EffectiveValue;

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
                print("The configuration is good.\n")?;
            }
            Action::Print(file) => {
                let values = file.read()?.effective();
                let line = |value: &EffectiveValue| {
                    format!("{} = {}  # {}\n", value.key, value.value, value.source)
                };
                print(&values.iter().map(line).collect::<String>())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
