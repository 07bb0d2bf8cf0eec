//! Logs: text on a terminal, JSON otherwise; to standard error, so that commands' output stays
//! clean.

use std::io::IsTerminal;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};

/// The log can't be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// `log.level` is neither a level nor directives.
    #[error("log.level: {0}")]
    Level(#[from] tracing_subscriber::filter::ParseError),
    /// Something else has set one up already.
    #[error("the log has been set up already: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Checks `config` without setting anything up.
///
/// # Errors
/// [`LogError::Level`].
pub fn check(config: &LogConfig) -> Result<(), LogError> {
    EnvFilter::try_new(&config.level)?;
    Ok(())
}

/// Sets up the process's log.
///
/// # Errors
/// [`LogError`].
pub fn init(config: &LogConfig) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(&config.level)?;
    let is_terminal = std::io::stderr().is_terminal();
    let as_text = match config.format {
        LogFormat::Auto => is_terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let registry = tracing_subscriber::registry().with(filter);
    if as_text {
        let colours = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        registry.with(fmt::layer().with_writer(std::io::stderr).with_ansi(colours)).try_init()?;
    } else {
        let layer = fmt::layer().json().flatten_event(true).with_writer(std::io::stderr);
        registry.with(layer).try_init()?;
    }
    Ok(())
}
