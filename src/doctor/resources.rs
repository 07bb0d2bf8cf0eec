//! The limits of this machine and of the database against what the replicas need.

use rustix::process::{Resource, getrlimit};
use tokio_postgres::Error;

use super::finding::Finding;
use super::session::Session;
use crate::config::Config;

pub(super) const CHECK: &str = "resources";

/// Files of a replica besides its connections.
const OTHER_FILES: u64 = 100;

/// Connections for polls and pings, to each server.
const SIDE_CONNECTIONS: u64 = 2;

/// Connections of commands, such as `maintain`.
const COMMANDS: u64 = 3;

/// Limits of -1 are none.
const LIMITS: &str = "SELECT current_setting('max_connections')::bigint
        - current_setting('superuser_reserved_connections')::bigint
        - coalesce(current_setting('reserved_connections', true)::bigint, 0) AS server,
    (SELECT rolconnlimit::bigint FROM pg_roles WHERE rolname = current_user) AS role,
    (SELECT datconnlimit::bigint FROM pg_database WHERE datname = current_database()) AS database";

/// Whether the limit of open files that this process has is enough for a replica.
pub(super) fn files(config: &Config) -> Vec<Finding> {
    let (server, upstream, redis) = (&config.server, &config.upstream, &config.redis);
    let needed = server.max_connections as u64
        + upstream.pool_size as u64 * (1 + upstream.read_urls.len() as u64)
        + u64::from(redis.pool_size)
        + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if limit >= needed {
        return Vec::new();
    }
    let message = format!(
        "a process may have {limit} open files here, and a replica with {} connections needs {needed}",
        server.max_connections
    );
    let remedy = "Raise the limit of the replicas (ulimit -n, LimitNOFILE of systemd), or lower \
                  server.max_connections.";
    vec![Finding::warning(CHECK, message, remedy)]
}

/// Whether the database accepts as many connections as the replicas may open.
pub(super) async fn connections(
    session: &mut Session,
    config: &Config,
) -> Result<Vec<Finding>, Error> {
    // A pooler has limits of its own.
    if !config.upstream.prepared_statements {
        return Ok(Vec::new());
    }
    let replicas = u64::from(config.rate_limit.replicas);
    let readers = replicas * (config.upstream.pool_size as u64 + SIDE_CONNECTIONS);
    let row = session.row(LIMITS).await?;
    let mut findings = Vec::new();
    for (column, name, needed) in [
        ("server", "max_connections without the reserved ones", readers + COMMANDS),
        ("role", "the connection limit of the role", readers),
        ("database", "the connection limit of the database", readers + COMMANDS),
    ] {
        let Ok(limit) = u64::try_from(row.try_get::<_, i64>(column)?) else { continue };
        if limit < needed {
            let message = format!(
                "{name} is {limit}, and {replicas} replicas (rate_limit.replicas) may open {needed}"
            );
            let remedy = "Raise it, lower upstream.pool_size, or use a pooler: see the section Sizing \
                          of docs/operations.md.";
            findings.push(Finding::warning(CHECK, message, remedy));
        }
    }
    Ok(findings)
}
