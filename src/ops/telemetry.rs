//! Logs: text on a terminal, JSON otherwise; to standard error, so that commands' output stays
//! clean. Nothing that logs waits for the reader of the log (see [`super::log_writer`]).

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, IsTerminal, Write, stderr};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::log_line::JsonLine;
use super::log_text::{text_fields, visible_lines};
pub use super::log_writer::AUDIT;
use super::log_writer::LogWriter;
use crate::config::{LogConfig, LogFormat};

/// The process's log.
static LOG: LogWriter = LogWriter::new();

/// Whether a thread writes the lines of [`LOG`].
static WRITER_RUNS: AtomicBool = AtomicBool::new(false);

/// Maximum wait for the reader of the log at the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the log could not be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// `log.level` is neither a level nor a list of directives.
    #[error("log.level: {0}")]
    Level(#[from] ParseError),
    /// A directive of `log.level` ends in no level.
    #[error(
        "log.level: {0:?} is not a level; use off, error, warn, info, debug or trace, or directives \
         such as info,gene_registry=debug"
    )]
    UnknownLevel(String),
    /// The process has a log already.
    #[error("the log has been set up already: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
    /// The thread could not be started, or standard error could not be duplicated.
    #[error("the log cannot be written: {0}")]
    Writer(#[source] io::Error),
}

/// Checks `config` without setting anything up.
///
/// # Errors
/// [`LogError::Level`] or [`LogError::UnknownLevel`].
pub fn check(config: &LogConfig) -> Result<(), LogError> {
    filter(config)?;
    Ok(())
}

fn filter(config: &LogConfig) -> Result<EnvFilter, LogError> {
    if let Some(unknown) = unknown_level(&config.level) {
        return Err(LogError::UnknownLevel(unknown.to_owned()));
    }
    let filter = EnvFilter::try_new(&config.level)?;
    if config.level.contains(AUDIT) {
        return Ok(filter);
    }
    Ok(filter.add_directive(format!("{AUDIT}=info").parse()?))
}

/// The first directive that ends in no level. The filter would read one such as `warning` as the name
/// of a module, and log nothing else.
fn unknown_level(directives: &str) -> Option<&str> {
    let mut given = directives.split(',').map(str::trim).filter(|one| !one.is_empty()).peekable();
    if given.peek().is_none() {
        return Some(directives);
    }
    given.find(|directive| {
        let level = directive.rsplit_once('=').map_or(*directive, |(_, level)| level).trim();
        level.is_empty() || level.parse::<LevelFilter>().is_err()
    })
}

/// Sets up the process's log. From then on panics are logged instead of printed.
///
/// # Errors
/// [`LogError`].
pub fn init(config: &LogConfig) -> Result<(), LogError> {
    let filter = filter(config)?;
    let is_terminal = stderr().is_terminal();
    let as_text = match config.format {
        LogFormat::Auto => is_terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let registry = tracing_subscriber::registry().with(filter);
    if as_text {
        let colours = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        let lines = fmt::layer().fmt_fields(text_fields()).with_ansi(colours);
        registry.with(lines.with_writer(&LOG)).try_init()?;
    } else {
        registry.with(fmt::layer().event_format(JsonLine).with_writer(&LOG)).try_init()?;
    }
    start_writer().map_err(LogError::Writer)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Writes the queued lines, and waits for that for up to one second. Must be called before the process
/// ends.
pub fn flush() {
    if WRITER_RUNS.load(Ordering::Acquire) {
        LOG.flush(FLUSH_TIMEOUT);
    }
}

/// Number of lines dropped since the process began, because the reader of the log stalled or writing
/// failed.
pub fn lines_dropped() -> u64 {
    LOG.dropped()
}

/// Prints `text` and a line break to standard error; if the log is set up, through the log, in order
/// and without waiting. Ignores failures, because they could not be reported either.
pub fn notice(text: &str) {
    let line = format!("{text}\n");
    if WRITER_RUNS.load(Ordering::Acquire) {
        LOG.add(line.as_bytes(), true);
    } else {
        let mut out = anstream::stderr();
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// Starts the thread that writes the log. It has its own descriptor: with the standard library's, it
/// would hold the lock of standard error while it waits for the reader.
fn start_writer() -> io::Result<()> {
    let out = File::from(stderr().as_fd().try_clone_to_owned()?);
    let thread = std::thread::Builder::new().name("log".to_owned());
    thread.spawn(|| LOG.run(out, report_dropped))?;
    WRITER_RUNS.store(true, Ordering::Release);
    Ok(())
}

fn report_dropped(lines: u64) {
    tracing::warn!(lines, "lines of the log were dropped, because its reader stalled");
}

/// Logs a panic. Unlike the standard library's hook, it never waits for the reader of the log.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("a panic without a message");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = Backtrace::capture();
    let current = std::thread::current();
    let thread = current.name().unwrap_or("unnamed");
    if tracing::enabled!(tracing::Level::ERROR) {
        let backtrace = (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace);
        let backtrace = backtrace.as_ref().map(tracing::field::display);
        tracing::error!(thread, location, backtrace, "panicked: {message}");
    } else {
        let text = format!("thread '{thread}' panicked at {location}: {message}");
        notice(&visible_lines(&text));
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use serde_json::Value;

    use super::*;

    /// Set for the process that [`the_child_panics`] is meant for.
    const IN_CHILD: &str = "GENE_REGISTRY_TEST_PANICS";

    /// More than a pipe and the queue hold.
    const PANICS: usize = 3_000;

    fn panic_often(log_level: &str) {
        let config = LogConfig { level: log_level.to_owned(), format: LogFormat::Json };
        init(&config).expect("a log");
        std::thread::spawn(|| {
            for n in 0..PANICS {
                let _ = std::panic::catch_unwind(|| panic!("number {n} {:100}", ""));
            }
        })
        .join()
        .expect("each was caught");
        flush();
        std::process::exit(0);
    }

    /// Does nothing unless it is run by [`child`].
    #[test]
    fn the_child_panics() {
        if let Ok(log_level) = std::env::var(IN_CHILD) {
            panic_often(&log_level);
        }
    }

    /// Characters that a terminal interprets, or that it displays other text because of.
    const DECEPTIVE: &str = "\x1b[2J\x07\r\n\x7f\u{9b}31m\u{202e}\u{200b}\u{e0041}é";

    /// Does nothing unless it is run by [`child_of`].
    #[test]
    fn the_child_logs_deceptive_text() {
        let Ok(format) = std::env::var(IN_CHILD) else { return };
        let format = if format == "text" { LogFormat::Text } else { LogFormat::Json };
        init(&LogConfig { level: "debug".to_owned(), format }).expect("a log");
        let error = io::Error::other(DECEPTIVE);
        let cause: &(dyn std::error::Error + 'static) = &error;
        tracing::warn!(%error, cause, text = DECEPTIVE, "begins {DECEPTIVE} ends");
        flush();
        std::process::exit(0);
    }

    /// A process that panics in other threads, whose standard error goes to `stderr`.
    fn child(log_level: &str, stderr: impl Into<Stdio>) -> std::process::Child {
        child_of("the_child_panics", log_level, stderr)
    }

    fn child_of(test: &str, value: &str, stderr: impl Into<Stdio>) -> std::process::Child {
        let this = std::env::current_exe().expect("a path");
        Command::new(this)
            .args(["--exact", &format!("ops::telemetry::tests::{test}"), "--nocapture"])
            .env(IN_CHILD, value)
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .expect("a child")
    }

    #[test]
    fn a_panic_is_logged_with_its_message_and_place() {
        let output = child("warn", Stdio::piped()).wait_with_output().expect("an end");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        let first = text.lines().next().expect("a line");
        let event: Value = serde_json::from_str(first).expect(first);
        assert_eq!(event["level"], "ERROR");
        assert!(event["message"].as_str().is_some_and(|it| it.starts_with("panicked: number 0 ")));
        assert!(event["location"].as_str().is_some_and(|it| it.contains("telemetry.rs:")));

        let output = child("off", Stdio::piped()).wait_with_output().expect("an end");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        let first = text.lines().next().expect("a line");
        assert!(first.contains("panicked at src/ops/telemetry.rs:"), "{first}");
    }

    #[test]
    fn panics_keep_nobody_waiting_when_nobody_reads_the_log() {
        let (_reader, stderr) = std::io::pipe().expect("a pipe");
        let mut child = child("warn", stderr);
        let (sender, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait()));
        let status = ended.recv_timeout(Duration::from_secs(60)).expect("it ends").expect("status");
        assert!(status.success(), "{status}");
    }

    #[test]
    fn no_line_has_deceptive_characters() {
        for format in ["text", "json"] {
            let child = child_of("the_child_logs_deceptive_text", format, Stdio::piped());
            let output = child.wait_with_output().expect("an end");
            let text = String::from_utf8(output.stderr).expect("UTF-8");
            let line = text.strip_suffix('\n').expect("a line");
            assert!(!line.contains(crate::registry::is_deceptive), "{line:?}");
            assert_eq!(line.matches('é').count(), 4, "{line:?}");
            if format == "json" {
                let event: Value = serde_json::from_str(line).expect(line);
                assert_eq!(event["text"], DECEPTIVE);
                assert_eq!(event["message"], format!("begins {DECEPTIVE} ends"));
            }
        }
    }
}
