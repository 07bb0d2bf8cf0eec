//! `gene-registry config` checks and prints the configuration.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::command::CommandResult;
use super::config_file::ConfigFile;
use super::output::{notice, print, sanitize_lines};
use crate::app;
use crate::config::EffectiveValue;
use crate::doctor;

#[derive(Debug, Args)]
pub(super) struct ConfigCommand {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// Check the configuration: exit status 0, or 1 with a list of all errors
    Check(ConfigFile),
    /// Print the effective values with their sources; secrets are masked
    Print(ConfigFile),
}

impl ConfigCommand {
    pub(super) fn run(self) -> CommandResult {
        match self.action {
            ConfigAction::Check(file) => {
                let loaded = app::load_config(file.path());
                let findings = match &loaded {
                    Ok(loaded) => doctor::check_configuration(&loaded.config),
                    Err(_) => doctor::ignored_variables(),
                };
                for finding in findings {
                    notice(&sanitize_lines(&finding.to_string()));
                }
                loaded?;
                print("The configuration is valid.\n")?;
            }
            ConfigAction::Print(file) => {
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
