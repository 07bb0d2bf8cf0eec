//! The role of the database: its settings, and rights that it does not need.

use tokio_postgres::{Error, Row};

use super::finding::Finding;
use super::session::Session;

pub(super) const CHECK: &str = "role";

const READER: &str = "gene_registry_reader";

/// The settings and rights of the role. `source`: the views, and what they read by their rules.
const SQL: &str = "WITH RECURSIVE source (oid) AS (
        SELECT oid FROM pg_class WHERE relkind IN ('r', 'v', 'm', 'f', 'p')
            AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'registry_read')
        UNION
        SELECT d.refobjid FROM source JOIN pg_rewrite r ON r.ev_class = source.oid
        JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
            AND d.refclassid = 'pg_class'::regclass
    )
    SELECT current_setting('server_version_num')::int / 10000 AS version,
    (SELECT reset_val::bigint FROM pg_settings WHERE name = 'statement_timeout') AS timeout_ms,
    current_setting('default_transaction_read_only') = 'on' AS is_read_only,
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
    EXISTS (
        SELECT FROM source JOIN pg_class c ON c.oid = source.oid
        WHERE pg_has_role(c.relowner, 'USAGE')
    ) AS is_owner,
    EXISTS (
        SELECT FROM pg_class WHERE relkind IN ('r', 'p', 'v') AND relnamespace IN (
            SELECT oid FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema$')
        AND has_table_privilege(oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
    ) AS may_write,
    has_database_privilege(current_database(), 'TEMPORARY') AS may_use_temporary_tables,
    has_database_privilege(current_database(), 'CREATE') OR EXISTS (
        SELECT FROM pg_namespace
        WHERE nspname !~ '^pg_' AND has_schema_privilege(oid, 'CREATE')
    ) AS may_create,
    quote_ident(current_user) AS role, quote_ident(current_database()) AS database";

/// For a role that others use too, such as the owner of the tables.
const USE_READER: &str = "Use a role that only reads, such as gene_registry_reader (created by \
                          gene-registry migrate --only roles), in upstream.url.";

const REVOKE: &str = "Revoke these rights from it and, if nothing else needs them, from PUBLIC.";

const REVOKE_CREATE: &str = "Revoke these rights from it and, if nothing else needs them, from PUBLIC; \
                             before Postgres 15, REVOKE CREATE ON SCHEMA public FROM PUBLIC.";

/// `longest_ms`: how long the service waits for a read.
pub(super) async fn check(session: &mut Session, longest_ms: u64) -> Result<Vec<Finding>, Error> {
    let row = session.row(SQL).await?;
    let role: String = row.try_get("role")?;
    // A setting of the owner, or a right that it loses, would stop the registry's own application.
    let is_shared = role != READER
        && (row.try_get("is_superuser")?
            || row.try_get("is_owner")?
            || row.try_get("may_write")?);
    let mut findings = Vec::new();
    let version: i32 = row.try_get("version")?;
    if version < 13 {
        let message = format!("Postgres {version} is not supported");
        findings.push(Finding::serious(CHECK, message, "Upgrade to Postgres 13 or later."));
    }
    let settings = settings(&row, &role, longest_ms)?.into_iter().map(|(message, statement)| {
        let remedy = if is_shared { USE_READER.to_owned() } else { statement };
        Finding::warning(CHECK, message, remedy)
    });
    findings.extend(settings);
    findings.extend(unneeded_rights(&row, &role, is_shared)?);
    Ok(findings)
}

/// The settings that are missing, with the statements that set them.
fn settings(row: &Row, role: &str, longest_ms: u64) -> Result<Vec<(String, String)>, Error> {
    let mut missing = Vec::new();
    let set_timeout = format!("ALTER ROLE {role} SET statement_timeout = '600ms';");
    match u64::try_from(row.try_get::<_, i64>("timeout_ms")?).unwrap_or(0) {
        0 => missing.push((format!("{role} has no statement_timeout"), set_timeout)),
        ms if ms > longest_ms => {
            let message = format!(
                "the statement_timeout of {role} is {ms} ms, but no read waits for longer than \
                 upstream.deadline_ms ({longest_ms} ms)"
            );
            missing.push((message, set_timeout));
        }
        _ => {}
    }
    if !row.try_get::<_, bool>("is_read_only")? {
        let set_read_only = format!("ALTER ROLE {role} SET default_transaction_read_only = on;");
        missing.push((format!("the transactions of {role} are not read-only"), set_read_only));
    }
    Ok(missing)
}

fn unneeded_rights(row: &Row, role: &str, is_shared: bool) -> Result<Vec<Finding>, Error> {
    let database: String = row.try_get("database")?;
    let no_temporary = format!(
        "If nothing else in the database needs temporary tables, run: REVOKE TEMPORARY ON DATABASE \
         {database} FROM PUBLIC;"
    );
    let revoke = if is_shared { USE_READER } else { REVOKE };
    let no_create = if is_shared { USE_READER } else { REVOKE_CREATE };
    let mut findings = Vec::new();
    for (column, message, remedy) in [
        ("is_superuser", "is a superuser", USE_READER),
        ("is_owner", "owns tables behind the views", USE_READER),
        ("may_write", "may change tables or views", revoke),
        ("may_create", "may create schemas, tables or functions", no_create),
        ("may_use_temporary_tables", "may create temporary tables", no_temporary.as_str()),
    ] {
        if row.try_get(column)? {
            findings.push(Finding::warning(CHECK, format!("{role} {message}"), remedy));
            // The remedy, another role, covers the other rights, too.
            if matches!(column, "is_superuser" | "is_owner") {
                break;
            }
        }
    }
    Ok(findings)
}
