//! Writing to standard output and standard error. Nothing here panics where that fails.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;
use thiserror::Error;

use super::text::sanitize_json;

pub(in crate::cli) use crate::ops::telemetry::notice;

/// A command could not write what it was asked for.
#[derive(Debug, Error)]
#[error("cannot write to standard {stream}: {source}")]
pub(in crate::cli) struct OutputError {
    stream: &'static str,
    source: io::Error,
}

impl OutputError {
    fn stdout(source: io::Error) -> Self {
        Self { stream: "output", source }
    }

    fn stderr(source: io::Error) -> Self {
        Self { stream: "error", source }
    }
}

/// Writes `text` to standard output, with its colours where that is a terminal that shows them. A
/// reader that has closed the pipe has seen enough: that is no failure.
pub(in crate::cli) fn print(text: &str) -> Result<(), OutputError> {
    match write(anstream::stdout(), text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(OutputError::stdout),
    }
}

/// Writes a value to standard output as one line of JSON. A closed pipe is no failure.
pub(in crate::cli) fn print_json(
    value: &impl Serialize,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut text = sanitize_json(&serde_json::to_string(value)?);
    text.push('\n');
    Ok(print(&text)?)
}

/// Writes a line that is shown this once to standard output. A closed pipe is a failure: nobody
/// has seen the line.
pub(in crate::cli) fn print_secret(line: &str) -> Result<(), OutputError> {
    write(io::stdout(), &format!("{line}\n")).map_err(OutputError::stdout)
}

/// Writes `text`, which the user needs beside what is on standard output, to standard error. A
/// closed pipe is a failure. What is only good to know is a [`notice`].
pub(in crate::cli) fn print_to_stderr(text: &str) -> Result<(), OutputError> {
    write(anstream::stderr(), text).map_err(OutputError::stderr)
}

fn write(mut out: impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}
