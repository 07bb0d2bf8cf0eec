//! `gene-registry serve` runs a replica until a signal ends it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::command::{CommandResult, block_on};
use super::config_file::ConfigFile;
use super::report_file::ReportFile;
use super::service_manager::ServiceManager;
use super::signals::TerminationSignals;
use crate::app::{self, Running};
use crate::config::Config;
use crate::doctor::{self, Finding};
use crate::ops::telemetry;
use crate::upstream::Postgres;

#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigFile,
    /// File to write once the service listens: JSON with `base_url`, `ops_url` and `control_url`
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
}

impl Serve {
    pub(super) fn run(self) -> CommandResult {
        let config = app::load_config(self.config.path())?.config;
        telemetry::init(&config.log)?;
        block_on(serve(config, self.ready_file))
    }
}

async fn serve(config: Config, ready_file: Option<PathBuf>) -> CommandResult {
    // Before anything listens: a signal may follow as soon as the replica can be reached.
    let mut signals = TerminationSignals::new()?;
    let postgres = Postgres::new(&config.upstream, config.registry.install_command.clone())?;
    let running = app::start(&config, Arc::new(postgres)).await?;
    let (base_url, ops_url) = (running.base_url(), running.ops_url());
    tracing::info!(base_url, ops_url, control_url = running.control_url(), "listening");
    if let Some(path) = ready_file {
        ReportFile { option: "--ready-file", path }.write(&addresses(&running))?;
    }
    let manager = ServiceManager::new()?;
    let _watchdog = manager.feed_watchdog();
    let (ready, told) = (running.ready(), manager.clone());
    tokio::spawn(async move {
        ready.await;
        told.ready();
    });
    tokio::spawn(async move {
        for Finding { check, message, remedy, .. } in doctor::check_at_start(&config).await {
            tracing::warn!(check, remedy, "{message}");
        }
    });
    signals.received().await;
    tracing::info!("shutting down");
    manager.stopping();
    signals.exit_on_next();
    running.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

fn addresses(running: &Running) -> String {
    let ready = json!({
        "base_url": running.base_url(),
        "ops_url": running.ops_url(),
        "control_url": running.control_url(),
    });
    format!("{ready}\n")
}
