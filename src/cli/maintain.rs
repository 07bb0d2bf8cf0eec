//! `gene-registry maintain` updates ranks and prunes the change log of the default schema.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::command::{CommandError, CommandResult, block_on};
use super::config_file::ConfigFile;
use super::database::connect;
use super::report_file::ReportFile;
use super::signals::TerminationSignals;
use super::value_parsers::pause;
use crate::config::UpstreamConfig;
use crate::default_schema::maintain::{self, MaintainError};
use crate::ops::{error_chain, telemetry};
use crate::upstream::postgres::check;

#[derive(Debug, Args)]
pub(super) struct Maintain {
    #[command(flatten)]
    config: ConfigFile,
    /// Repeat until interrupted, with a pause of this length: 1s to 24h, or 60s if none is given;
    /// without this option, run once
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "60s",
          value_parser = pause)]
    every: Option<Duration>,
    /// With --every: file to write after each round: `maintained` or `failed`
    #[arg(long, value_name = "PATH", requires = "every")]
    state_file: Option<PathBuf>,
}

impl Maintain {
    pub(super) fn run(self) -> CommandResult {
        let config = self.config.read()?.config;
        telemetry::init(&config.log)?;
        block_on(async {
            match self.every {
                None => maintain_once(&config.upstream).await?,
                Some(every) => {
                    let file =
                        self.state_file.map(|path| ReportFile { option: "--state-file", path });
                    maintain_repeatedly(&config.upstream, every, file).await?;
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Runs rounds until a signal is received. A failed round is logged and retried at the next interval;
/// [`MaintainError::OwnViews`] ends the command. A round in progress at the end is aborted; each of its
/// statements is complete in itself.
async fn maintain_repeatedly(
    config: &UpstreamConfig,
    every: Duration,
    state_file: Option<ReportFile>,
) -> Result<(), CommandError> {
    let mut signals = TerminationSignals::new()?;
    // Retrying does not correct a wrong configuration.
    check(config)?;
    let rounds = async {
        loop {
            let round = maintain_once(config).await;
            let state = if round.is_ok() { "maintained\n" } else { "failed\n" };
            if let Err(error) = round {
                if let Some(MaintainError::OwnViews) = error.downcast_ref() {
                    return Err(error);
                }
                let error = error_chain(&*error);
                tracing::warn!(error, "maintenance failed; trying again at the next interval");
            }
            if let Some(file) = &state_file {
                file.write(state)?;
            }
            tokio::time::sleep(every).await;
        }
    };
    tokio::select! {
        () = signals.received() => Ok(()),
        ended = rounds => ended,
    }
}

async fn maintain_once(config: &UpstreamConfig) -> Result<(), CommandError> {
    let mut client = connect(config).await?;
    let done = maintain::run_once(&mut client).await?;
    let maintain::Maintained { domains, ranks, skipped, pruned } = done;
    tracing::info!(domains, ranks, skipped, pruned, "maintained");
    Ok(())
}
