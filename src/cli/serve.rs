//! `gene-registry serve` runs a replica until a signal ends it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::command::{CommandResult, block_on};
use super::config_file::ConfigFile;
use super::signals::TerminationSignals;
use crate::app::{self, Running};
use crate::config::Config;
use crate::doctor::{self, Finding};
use crate::net::io_reason;
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
        write_ready_file(&path, &running).map_err(|error| {
            format!("--ready-file: cannot write {}: {}", path.display(), io_reason(&error))
        })?;
    }
    tokio::spawn(async move {
        for Finding { check, message, remedy, .. } in doctor::check_at_start(&config).await {
            tracing::warn!(check, remedy, "{message}");
        }
    });
    signals.received().await;
    tracing::info!("shutting down");
    signals.exit_on_next();
    running.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// Writes the file under another name first, so that it is complete once it exists.
fn write_ready_file(path: &Path, running: &Running) -> std::io::Result<()> {
    let ready = json!({
        "base_url": running.base_url(),
        "ops_url": running.ops_url(),
        "control_url": running.control_url(),
    });
    let unfinished = path.with_added_extension("part");
    std::fs::write(&unfinished, format!("{ready}\n"))?;
    std::fs::rename(unfinished, path)
}
