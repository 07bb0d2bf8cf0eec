//! Writes to standard output and standard error. Nothing here panics if that fails.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;
use thiserror::Error;

use super::sanitize::sanitize_json;
use crate::cli::command::CommandError;

pub(in crate::cli) use crate::ops::telemetry::notice;

/// A command could not write its output.
#[derive(Debug, Error)]
#[error("cannot write to standard {stream}: {source}")]
pub(in crate::cli) struct OutputError {
    stream: &'static str,
    source: io::Error,
}

/// Writes `text` to standard output, with its colours if that is a terminal that supports them. A
/// closed pipe is not an error: its reader has read all it needs.
pub(in crate::cli) fn print(text: &str) -> Result<(), OutputError> {
    match write(anstream::stdout(), "output", text) {
        Err(error) if error.source.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a value to standard output as one line of JSON. A closed pipe is not an error.
pub(in crate::cli) fn print_json(value: &impl Serialize) -> Result<(), CommandError> {
    let mut text = sanitize_json(&serde_json::to_string(value)?);
    text.push('\n');
    Ok(print(&text)?)
}

/// Writes a secret line to standard output. A closed pipe is an error: the line is not shown again.
pub(in crate::cli) fn print_secret(line: &str) -> Result<(), OutputError> {
    write(io::stdout(), "output", &format!("{line}\n"))
}

/// Writes `text` to standard error if the user needs it along with the output. A closed pipe is an
/// error. For text that the user can do without, use [`notice`].
pub(in crate::cli) fn print_to_stderr(text: &str) -> Result<(), OutputError> {
    write(anstream::stderr(), "error", text)
}

fn write(mut out: impl Write, stream: &'static str, text: &str) -> Result<(), OutputError> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|source| OutputError { stream, source })
}
