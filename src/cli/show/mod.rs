//! What people read: text that can't harm their terminal, tables, times of their own zone.

mod table;
mod text;
mod time;

use std::io::{self, ErrorKind, Write};

pub(super) use table::{Cell, Table};
pub(super) use text::{sanitize, sanitize_json, sanitize_lines, without_secrets};
pub(super) use time::{local, local_or_never};

/// Writes to standard output, with colours where it is a terminal that wants them. Whoever has
/// stopped reading has seen enough.
pub(super) fn print(text: &str) -> io::Result<()> {
    match anstream::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes a value as one line of JSON.
pub(super) fn print_json(value: &impl serde::Serialize) -> io::Result<()> {
    let mut text = sanitize_json(&serde_json::to_string(value)?);
    text.push('\n');
    print(&text)
}

/// Writes what is shown this once, and says whether it has got out.
pub(super) fn print_secret(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}
