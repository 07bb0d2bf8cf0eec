//! Writes to standard output and standard error. Nothing here panics if that fails.

use std::io::{self, ErrorKind, Write};

use rustix::fs::{OFlags, fcntl_getfl, fstat, stat};
use serde::Serialize;
use thiserror::Error;

use super::sanitize::sanitize_json;
use crate::cli::command::CommandError;
use crate::ops::telemetry;

pub(in crate::cli) use crate::ops::telemetry::notice;

/// A command could not write its output.
#[derive(Debug, Error)]
#[error("cannot write to standard {stream}: {source}")]
pub(in crate::cli) struct OutputError {
    stream: &'static str,
    source: io::Error,
}

/// Whether standard output was closed when the process started (`>&-`). Rust's runtime replaces a
/// closed one by `/dev/null`, opened for reading and writing, where all output would be lost
/// silently.
fn is_stdout_closed() -> bool {
    let stdout = io::stdout();
    let is_writable_only =
        fcntl_getfl(&stdout).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::WRONLY);
    let (Ok(stdout), Ok(null)) = (fstat(&stdout), stat("/dev/null")) else { return false };
    !is_writable_only && stdout.st_rdev == null.st_rdev && stdout.st_ino == null.st_ino
}

/// Writes `text` to standard output, with its colours if that is a terminal that supports them. A
/// closed pipe is not an error: its reader has read all it needs.
pub(in crate::cli) fn print(text: &str) -> Result<(), OutputError> {
    match write_stdout(anstream::stdout(), text) {
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
    write_stdout(io::stdout(), &format!("{line}\n"))
}

/// Writes `text` to standard error if the user needs it along with the output. A closed pipe is an
/// error. For text that the user can do without, use [`notice`].
pub(in crate::cli) fn print_to_stderr(text: &str) -> Result<(), OutputError> {
    write(anstream::stderr(), "error", text)
}

fn write_stdout(out: impl Write, text: &str) -> Result<(), OutputError> {
    // On a terminal, what was said before appears before.
    telemetry::flush();
    if is_stdout_closed() {
        return Err(OutputError { stream: "output", source: io::Error::other("it is closed") });
    }
    write(out, "output", text)
}

fn write(mut out: impl Write, stream: &'static str, text: &str) -> Result<(), OutputError> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|source| OutputError { stream, source })
}
