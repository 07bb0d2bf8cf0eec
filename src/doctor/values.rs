//! Whether each value of a view can be computed and read as the service reads it. An expression of a
//! view, such as a cast, may fail for a single row.

use tokio_postgres::Error;

use super::finding::Finding;
use super::session::Session;
use crate::ops::error_chain;
use crate::upstream::postgres::VIEWS;

pub(super) const CHECK: &str = "rows";

/// The columns of a view that fail in its first rows, at most `sample`.
///
/// # Errors
/// The connection was lost, or the view is too slow to be read.
pub(super) async fn unreadable(
    session: &mut Session,
    view: &str,
    sample: u32,
) -> Result<Vec<Finding>, Error> {
    let columns = VIEWS.iter().find(|(name, _)| *name == view).map_or("", |(_, columns)| *columns);
    let columns: Vec<_> = columns.split(", ").filter_map(|it| it.split_once(' ')).collect();
    let all: Vec<_> = columns.iter().map(|(name, kind)| evaluated(name, kind)).collect();
    match session.row(&statement(view, &all.join(", "), sample)).await {
        Ok(_) => return Ok(Vec::new()),
        Err(error) if !is_about_values(&error) => return Err(error),
        Err(_) => {}
    }
    let mut findings = Vec::new();
    for ((name, _), expression) in columns.iter().zip(all) {
        match session.row(&statement(view, &expression, sample)).await {
            Err(error) if is_about_values(&error) => {
                findings.push(unreadable_column(view, name, &error));
            }
            result => drop(result?),
        }
    }
    Ok(findings)
}

/// Whether the error says something about what was read: not about the session, the server, locks or
/// timeouts.
pub(super) fn is_about_values(error: &Error) -> bool {
    let class = error.code().map(|code| &code.code()[..2]);
    class.is_some_and(|class| !matches!(class, "08" | "40" | "53" | "55" | "57" | "58"))
}

/// A view that a check cannot read at all.
pub(super) fn failed(check: &'static str, view: &str, error: &Error) -> Finding {
    let message = format!("registry_read.{view} cannot be read: {}", description(view, error));
    let remedy = "Correct the view, or the rows that it reads; then run doctor again.";
    Finding::serious(check, message, remedy)
}

fn statement(view: &str, expressions: &str, sample: u32) -> String {
    format!("SELECT {expressions} FROM (SELECT * FROM registry_read.{view} LIMIT {sample}) sample")
}

/// Evaluates a column with the cast of the service. Integers are limited before they are cast.
fn evaluated(name: &str, kind: &str) -> String {
    match kind {
        "bigint" | "integer" | "xid8" | "bytea" => format!("count({name})"),
        "jsonb" => format!("count({name}::json)"),
        _ => format!("count({name}::{kind})"),
    }
}

fn unreadable_column(view: &str, name: &str, error: &Error) -> Finding {
    let error = description(view, error);
    let message = format!(
        "registry_read.{view}.{name} fails for at least one row, and so do the requests that read \
         it: {error}"
    );
    let remedy = format!(
        "Correct the rows, or convert in the view only what can be converted: CASE WHEN <the value \
         is valid> THEN <the conversion> END AS {name}."
    );
    Finding::serious(CHECK, message, remedy)
}

/// The error, with the server's details. Values of key rows must not be printed, and messages quote
/// them.
fn description(view: &str, error: &Error) -> String {
    match error.code() {
        Some(code) if view == "api_key" => format!("SQLSTATE {}", code.code()),
        _ => error_chain(error),
    }
}
