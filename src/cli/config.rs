//! `gene-registry config`

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{ConfigFile, Outcome};
use crate::app::{self, StartError};
use crate::config::UpstreamConfig;
use crate::ops::telemetry;
use crate::redis::Servers;
use crate::upstream::postgres;

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
                let config = file.read()?.config;
                telemetry::check(&config.log)?;
                if config.upstream.url.is_some() {
                    postgres::check(&config.upstream)?;
                }
                if let Some(url) = &config.control.database_url {
                    let own = UpstreamConfig { url: Some(url.clone()), ..config.upstream.clone() };
                    postgres::check(&own).map_err(StartError::KeysDatabase)?;
                }
                Servers::read(&config.redis)?;
                app::tls(&config)?;
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
