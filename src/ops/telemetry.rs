//! Logs: text on a terminal, JSON otherwise; to standard error, so that commands' output stays
//! clean. On a terminal each line is written at once; anywhere else they are gathered for a moment
//! (see [`super::log_writer`]).

use std::io::{IsTerminal, Stderr, stderr};
use std::sync::OnceLock;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::log_line::JsonLine;
use super::log_writer::LogWriter;
use crate::config::{LogConfig, LogFormat};

/// The process's log, where it is gathered.
static GATHERED: OnceLock<LogWriter<Stderr>> = OnceLock::new();

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
    let is_terminal = stderr().is_terminal();
    let as_text = match config.format {
        LogFormat::Auto => is_terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let gathered = if is_terminal { None } else { gathered() };
    let writer = match gathered {
        Some(log) => BoxMakeWriter::new(log),
        None => BoxMakeWriter::new(stderr),
    };
    let registry = tracing_subscriber::registry().with(filter);
    if as_text {
        let colours = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        registry.with(fmt::layer().with_writer(writer).with_ansi(colours)).try_init()?;
    } else {
        registry.with(fmt::layer().event_format(JsonLine).with_writer(writer)).try_init()?;
    }
    Ok(())
}

/// Writes what has been gathered; to be called before the process ends.
pub fn write_out() {
    if let Some(log) = GATHERED.get() {
        log.write_out();
    }
}

/// `None` where there is no thread to be had for it.
fn gathered() -> Option<&'static LogWriter<Stderr>> {
    let log = GATHERED.get_or_init(|| LogWriter::new(stderr()));
    let thread = std::thread::Builder::new().name("log".to_owned());
    thread.spawn(|| log.write_out_for_ever()).is_ok().then_some(log)
}
