//! The databases to which keys and their use are written.

use secrecy::SecretString;
use tokio_postgres::Error;

use super::finding::Finding;
use super::session::Session;
use crate::config::{Config, UpstreamConfig};
use crate::ops::error_chain;

pub(super) const CHECK: &str = "key databases";

/// The rights that manage keys; returns those that are missing.
const KEYS: &str = "SELECT missing FROM (
        SELECT privilege || ' on ' || name AS missing, to_regclass(name) AS found, privilege
        FROM (VALUES ('registry.api_key', 'SELECT'), ('registry.api_key', 'INSERT'),
            ('registry.api_key', 'UPDATE'), ('registry.api_key_usage', 'SELECT'),
            ('registry.owner', 'SELECT'), ('registry.owner', 'INSERT')) needed (name, privilege)
    ) needed WHERE found IS NULL OR NOT has_table_privilege(found, privilege)";

/// As [`KEYS`], for the rights that record the use of keys.
const USAGE: &str = "SELECT 'EXECUTE on function ' || name AS missing
    FROM (VALUES ('registry.record_key_usage(bytea[], timestamptz[], bigint[])')) needed (name)
    WHERE to_regprocedure(name) IS NULL
        OR NOT has_function_privilege(to_regprocedure(name), 'EXECUTE')";

pub(super) async fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, url, rights, consequence) in [
        ("control.database_url", &config.control.database_url, KEYS, "keys cannot be managed"),
        (
            "keys.usage_database_url",
            &config.keys.usage_database_url,
            USAGE,
            "the use of keys is not recorded",
        ),
    ] {
        let Some(url) = url else { continue };
        let problem = match connect(config, url).await {
            Err(problem) => problem,
            Ok(mut session) => match missing(&mut session, rights).await {
                Ok(missing) if missing.is_empty() => continue,
                Ok(missing) => format!("its role lacks {}", missing.join(", ")),
                Err(error) => error_chain(&error),
            },
        };
        let message = format!("{key}: {consequence}: {problem}");
        let remedy = "Correct the URL, or run gene-registry migrate as the owner of the schema, \
                      which grants the rights. A registry with views of its own has neither: unset the \
                      key.";
        findings.push(Finding::serious(CHECK, message, remedy));
    }
    findings
}

async fn connect(config: &Config, url: &SecretString) -> Result<Session, String> {
    let url = Some(url.clone());
    let config = UpstreamConfig { url, read_urls: Vec::new(), ..config.upstream.clone() };
    Session::open(&config).await.map_err(|error| error_chain(&error))
}

async fn missing(session: &mut Session, rights: &str) -> Result<Vec<String>, Error> {
    session.rows(rights).await?.iter().map(|row| row.try_get("missing")).collect()
}
