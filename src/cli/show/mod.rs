//! What people read: text that can't harm their terminal, tables, times of their own zone.

mod output;
mod table;
mod text;
mod time;

pub(super) use output::{OutputError, notice, print, print_json, print_secret, print_to_stderr};
pub(super) use table::{Cell, Table};
pub(super) use text::{sanitize, sanitize_json, sanitize_lines, without_secrets};
pub(super) use time::{local, local_or_never};
