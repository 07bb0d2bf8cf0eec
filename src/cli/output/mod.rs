//! Output for people: sanitized text, tables, and times in the user's time zone.

mod local_time;
mod print;
mod sanitize;
mod table;

pub(super) use local_time::{TimeFormat, local, local_as, local_or_never};
pub(super) use print::{OutputError, notice, print, print_json, print_secret, print_to_stderr};
pub(super) use sanitize::{sanitize, sanitize_json, sanitize_lines, without_secrets};
pub(super) use table::{Table, styled};
