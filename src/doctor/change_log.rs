//! The change log: without it, or where it misses changes, responses are as old as their ages allow.
//! The most serious case is a log that misses changes of API keys: a revoked key then stays valid in
//! each replica that has its record cached.

use tokio_postgres::{Error, Row};

use super::finding::Finding;
use super::session::Session;
use super::triggers::{self, LOG_KEYS};
use super::values::{failed, is_about_values};

pub(super) const CHECK: &str = triggers::CHECK;

const HOW_TO_LOG: &str = "See the section Change log of docs/upstream.md.";

/// The newest and the oldest row, rows with numbers that this cluster has not reached, and whether
/// the newest rows concern genes and keys.
const LOG: &str = "WITH newest_rows AS (
        SELECT split_part(scope::text COLLATE \"C\", ':', 1) AS kind
        FROM registry_read.change ORDER BY changed_at DESC LIMIT 100000
    )
    SELECT coalesce(newest > now() + interval '1 minute', false) AS is_ahead,
        coalesce(newest > now() - interval '25 hours', false) AS is_recent,
        coalesce(oldest < now() - interval '49 hours', false) AS is_old,
        (SELECT count(*) FROM registry_read.change
            WHERE changed_in >= pg_snapshot_xmax(pg_current_snapshot())) AS foreign_rows,
        EXISTS (SELECT FROM newest_rows WHERE kind IN ('key', 'keys')) AS has_keys,
        EXISTS (SELECT FROM newest_rows WHERE kind IN ('gene', 'domain', 'genes')) AS has_genes
    FROM (SELECT min(changed_at) AS oldest, max(changed_at) AS newest
        FROM registry_read.change) bounds";

/// Keys that were created or revoked in the last 24 hours, after the log began, which the log does
/// not show. A row with another word than those about genes concerns all keys.
const UNLOGGED_KEYS: &str = "SELECT count(*) AS count, min(left(k.prefix::text, 11)) AS example
    FROM registry_read.api_key k
    CROSS JOIN (SELECT min(changed_at) AS begin FROM registry_read.change) log
    CROSS JOIN LATERAL (
        SELECT max(at) AS at FROM unnest(ARRAY[k.created_at, k.revoked_at]) at WHERE at < now()
    ) changed
    WHERE changed.at > log.begin AND changed.at > now() - interval '24 hours'
    AND NOT EXISTS (
        SELECT FROM registry_read.change c WHERE c.scope::text COLLATE \"C\" = 'key:' || encode(k.key_hash, 'hex')
            AND c.changed_at > changed.at - interval '1 minute'
    )
    AND NOT EXISTS (
        SELECT FROM registry_read.change c
        WHERE c.changed_at BETWEEN changed.at - interval '1 minute'
                AND changed.at + interval '1 minute'
            AND split_part(c.scope::text COLLATE \"C\", ':', 1)
                NOT IN ('gene', 'domain', 'genes', 'key')
    )";

/// Whether the tables behind a view have triggers, which may write the log.
async fn has_triggers(session: &mut Session, view: &str) -> Result<bool, Error> {
    let sources = triggers::sources(view);
    let sql = format!(
        "{sources} SELECT EXISTS (
            SELECT FROM source JOIN pg_trigger t ON t.tgrelid = source.oid
            WHERE NOT t.tgisinternal AND t.tgenabled <> 'D'
        ) AS has_triggers"
    );
    session.row(&sql).await?.try_get("has_triggers")
}

/// Whether there is a change log.
pub(super) async fn exists(session: &mut Session) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (
            SELECT FROM pg_class WHERE relname = 'change' AND relnamespace IN (
                SELECT oid FROM pg_namespace WHERE nspname = 'registry_read')
        ) AS exists";
    session.row(sql).await?.try_get("exists")
}

pub(super) async fn check(session: &mut Session, exists: bool) -> Result<Vec<Finding>, Error> {
    if !exists {
        let message = "there is no change log (registry_read.change): changes appear as cached \
                       responses age, and a revoked key works for up to a minute";
        return Ok(vec![Finding::warning(CHECK, message.to_owned(), HOW_TO_LOG)]);
    }
    let mut findings = Vec::from_iter(unlogged_keys(session).await?);
    let log = session.row(LOG).await?;
    let mut warn = |message: String, remedy: &str| {
        findings.push(Finding::warning(CHECK, message, remedy));
    };
    let foreign: i64 = log.try_get("foreign_rows")?;
    if foreign > 0 {
        let message = format!("{foreign} rows have transaction numbers of another cluster");
        let remedy = "They are ignored. After a restored dump, delete them; on a logical replica, \
                      write a log of its own, because the whole log is ignored there.";
        warn(message, remedy);
    }
    if log.try_get("is_ahead")? {
        warn("its newest row is from the future".to_owned(), "Set changed_at to now().");
    }
    if log.try_get("is_old")? {
        let remedy = "Run gene-registry maintain regularly, or delete rows older than 48 hours.";
        warn("it has rows older than 49 hours, so it is not pruned".to_owned(), remedy);
    }
    if triggers::write_log(session).await? {
        findings.extend(triggers::check(session).await?);
    } else {
        let has_unlogged_keys = findings.iter().any(Finding::is_serious);
        findings.extend(signs(session, &log, has_unlogged_keys).await?);
    }
    Ok(findings)
}

/// What the rows of a log that something else writes do not show. `has_unlogged_keys`: whether it is
/// known that it misses keys.
async fn signs(
    session: &mut Session,
    log: &Row,
    has_unlogged_keys: bool,
) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let mut warn = |message: &str| {
        findings.push(Finding::warning(CHECK, message.to_owned(), HOW_TO_LOG));
    };
    let gene_triggers = has_triggers(session, "gene").await?;
    if !gene_triggers && !log.try_get::<_, bool>("is_recent")? {
        warn("it has no row of the last 25 hours, and no trigger writes it");
    } else if !gene_triggers && !log.try_get::<_, bool>("has_genes")? {
        warn("nothing shows that it records changes of genes");
    }
    let key_triggers = has_triggers(session, "api_key").await?;
    if !has_unlogged_keys && !key_triggers && !log.try_get::<_, bool>("has_keys")? {
        let message = "nothing shows that it records changes of API keys: a revoked key would stay \
                       valid for ten minutes or more";
        findings.push(Finding::serious(CHECK, message.to_owned(), LOG_KEYS));
    }
    Ok(findings)
}

async fn unlogged_keys(session: &mut Session) -> Result<Option<Finding>, Error> {
    let row = match session.row(UNLOGGED_KEYS).await {
        Err(error) if is_about_values(&error) => {
            return Ok(Some(failed(CHECK, "api_key", &error)));
        }
        row => row?,
    };
    let (count, example): (i64, Option<String>) = (row.try_get("count")?, row.try_get("example")?);
    let example = example.unwrap_or_default();
    Ok((count > 0).then(|| {
        let message = format!(
            "it does not record changes of API keys, such as that of {example} ({count} in 24 \
             hours): a revoked key stays valid for ten minutes or more"
        );
        Finding::serious(CHECK, message, LOG_KEYS)
    }))
}
