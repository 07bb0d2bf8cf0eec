//! How the database stores and compares text.

use tokio_postgres::Error;

use super::finding::Finding;
use super::session::Session;

pub(super) const CHECK: &str = "text";

/// The columns that requests are compared with.
const NONDETERMINISTIC: &str = "SELECT a.attname::text AS name
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    JOIN pg_collation l ON l.oid = a.attcollation
    WHERE c.relname = 'gene' AND a.attname IN ('domain', 'fidelity', 'required_fidelity')
        AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'registry_read')
        AND NOT l.collisdeterministic
    ORDER BY a.attnum";

pub(super) async fn check(session: &mut Session) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let encoding = "SELECT current_setting('server_encoding') AS encoding";
    let encoding: String = session.row(encoding).await?.try_get("encoding")?;
    if encoding == "SQL_ASCII" {
        let message = "the database has the encoding SQL_ASCII, which accepts any bytes: those \
                       that are not UTF-8 are shown as U+FFFD";
        let remedy = "Move the registry to a database with the encoding UTF8.";
        findings.push(Finding::warning(CHECK, message.to_owned(), remedy));
    } else if encoding != "UTF8" {
        let message = format!(
            "the database has the encoding {encoding}: a domain with a character that it lacks \
             finds nothing"
        );
        let remedy = "Move the registry to a database with the encoding UTF8.";
        findings.push(Finding::warning(CHECK, message, remedy));
    }
    for row in session.rows(NONDETERMINISTIC).await? {
        let name: String = row.try_get("name")?;
        let message = format!(
            "registry_read.gene.{name} has a nondeterministic collation; requests compare its bytes, \
             so an index with this collation does not serve them"
        );
        let remedy = format!("Change it in the view: {name} COLLATE \"C\" AS {name}.");
        findings.push(Finding::warning(CHECK, message, remedy));
    }
    Ok(findings)
}
