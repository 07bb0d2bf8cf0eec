//! The views of schema `registry_read`: each column with its type, and the right to read it.

use std::collections::HashMap;

use tokio_postgres::Error;

use super::finding::Finding;
use super::session::Session;
use crate::upstream::postgres::VIEWS;

pub(super) const CHECK: &str = "views";

const SCHEMA: &str = "SELECT has_schema_privilege(oid, 'USAGE') AS is_usable,
    quote_ident(current_user) AS role
    FROM pg_namespace WHERE nspname = 'registry_read'";

/// The type of a domain is the one that it is based on.
const COLUMNS: &str = "SELECT c.relname::text AS view, a.attname::text AS name,
    format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL) AS type,
    has_column_privilege(c.oid, a.attnum, 'SELECT') AS is_readable
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
    WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'registry_read')
        AND c.relkind IN ('r', 'v', 'm', 'f', 'p') AND a.attnum > 0 AND NOT a.attisdropped";

/// The columns of one view: their types by name, and whether all can be read.
#[derive(Default)]
struct ViewColumns {
    types: HashMap<String, String>,
    is_readable: bool,
}

pub(super) async fn check(session: &mut Session) -> Result<Vec<Finding>, Error> {
    let schemas = session.rows(SCHEMA).await?;
    let Some(schema) = schemas.first() else {
        let remedy = "Run gene-registry migrate for the default schema, or create the views over \
                      your own tables: see docs/upstream.md.";
        let message = "there is no schema registry_read".to_owned();
        return Ok(vec![Finding::serious(CHECK, message, remedy)]);
    };
    let role: String = schema.try_get("role")?;
    if !schema.try_get::<_, bool>("is_usable")? {
        let message = format!("{role} may not use the schema registry_read");
        let remedy = format!("GRANT USAGE ON SCHEMA registry_read TO {role};");
        return Ok(vec![Finding::serious(CHECK, message, remedy)]);
    }
    let mut views: HashMap<String, ViewColumns> = HashMap::new();
    for row in session.rows(COLUMNS).await? {
        let view = views.entry(row.try_get("view")?).or_default();
        view.is_readable =
            row.try_get("is_readable")? && (view.is_readable || view.types.is_empty());
        view.types.insert(row.try_get("name")?, row.try_get("type")?);
    }
    let mut findings = Vec::new();
    for (view, columns) in VIEWS {
        match views.get(view) {
            Some(found) => check_view(view, columns, found, &role, &mut findings),
            // `change_log` reports it: the view is optional.
            None if view == "change" => {}
            None => {
                let message = format!("there is no view registry_read.{view}");
                let remedy = format!("Create it with the columns {columns}.");
                findings.push(Finding::serious(CHECK, message, remedy));
            }
        }
    }
    Ok(findings)
}

/// `columns`: names and types, as in [`VIEWS`].
fn check_view(
    view: &str,
    columns: &str,
    found: &ViewColumns,
    role: &str,
    findings: &mut Vec<Finding>,
) {
    if !found.is_readable {
        let message = format!("{role} may not read registry_read.{view}");
        let remedy = format!("GRANT SELECT ON registry_read.{view} TO {role};");
        findings.push(Finding::serious(CHECK, message, remedy));
    }
    for column in columns.split(", ") {
        let Some((name, expected)) = column.split_once(' ') else { continue };
        let Some(actual) = found.types.get(name) else {
            let message = format!("registry_read.{view} has no column {name}");
            let empty = format!("where the registry has no such value, NULL::{expected} AS {name}");
            let remedy = format!("Add it to the view, with the type {expected}; {empty}.");
            findings.push(Finding::serious(CHECK, message, remedy));
            continue;
        };
        findings.extend(wrong_type(&format!("registry_read.{view}.{name}"), actual, expected));
    }
}

/// A finding if a column of the type `actual` is not read as the `expected` type without a cast
/// that changes its values.
fn wrong_type(column: &str, actual: &str, expected: &str) -> Option<Finding> {
    let is_equivalent = matches!(
        (expected, actual),
        ("text", "character varying")
            | ("text[]", "character varying[]")
            | ("bigint", "integer" | "smallint")
            | ("integer", "bigint" | "smallint")
            | ("jsonb", "json")
    );
    if actual == expected || is_equivalent {
        return None;
    }
    let message = format!("{column} has the type {actual} instead of {expected}");
    let name = column.rsplit('.').next().unwrap_or(column);
    Some(match (expected, actual) {
        ("timestamp with time zone", "timestamp without time zone") => {
            let remedy = format!(
                "Its times are read in the session's time zone. Convert them in the view: \
                 {name} AT TIME ZONE 'UTC' AS {name}."
            );
            Finding::serious(CHECK, message, remedy)
        }
        ("uuid" | "bytea" | "xid8" | "timestamp with time zone", _) => {
            let remedy = format!(
                "Convert it in the view, where the value is valid, and index the same expression: \
                 CASE WHEN … THEN {name}::{expected} END AS {name}."
            );
            Finding::serious(CHECK, message, remedy)
        }
        _ => {
            let remedy = format!(
                "Convert it in the view, where the value is valid: {name}::{expected} AS {name}; and \
                 create the indexes on this expression: step 2 of docs/upstream.md."
            );
            Finding::warning(CHECK, message, remedy)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn types_that_are_read_as_expected_are_no_finding() {
        for (actual, expected) in [
            ("text", "text"),
            ("character varying", "text"),
            ("character varying[]", "text[]"),
            ("smallint", "bigint"),
            ("bigint", "integer"),
            ("json", "jsonb"),
        ] {
            assert_eq!(wrong_type("registry_read.gene.x", actual, expected), None, "{actual}");
        }
    }

    #[test]
    fn other_types_are_serious_where_no_cast_replaces_them() {
        for (actual, expected, severity) in [
            ("timestamp without time zone", "timestamp with time zone", Severity::Serious),
            ("date", "timestamp with time zone", Severity::Serious),
            ("text", "uuid", Severity::Serious),
            ("text", "bytea", Severity::Serious),
            ("bigint", "xid8", Severity::Serious),
            ("character(9)", "text", Severity::Warning),
            ("numeric", "double precision", Severity::Warning),
        ] {
            let found = wrong_type("registry_read.gene.x", actual, expected).expect(actual);
            assert_eq!(found.severity, severity, "{found}");
            assert!(found.message.contains("registry_read.gene.x has the type"), "{found}");
        }
    }
}
