//! Maintenance of the default schema: arena ranks, and the size of the change log. No writer waits
//! for it: it locks at most 500 rows at a time, commits, and skips rows that others have locked.
//!
//! A domain's ranks are read in one snapshot and written in later transactions, so a rank may be
//! out of date when it is written. They end right because a domain is marked in `rank_due` as long
//! as one of its ranks is wrong. Ranks are written only while the domain is marked, and its marks
//! are deleted only when all its ranks are right, both under a lock that rounds take in turn.

use thiserror::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, IsolationLevel, Row, Transaction};
use uuid::Uuid;

use super::error::StatementError;
use super::migrate::HAS_OWN_VIEWS;
use crate::net::PgTimestamp;
use crate::registry::Timestamp;
use crate::upstream::postgres::QueryParam;

/// The result of one round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Domains whose ranks were recomputed.
    pub domains: u64,
    /// Genes whose rank changed.
    pub ranks: u64,
    /// Genes whose rank was left as it was, because another session had locked or changed them.
    /// The next round updates them.
    pub skipped: u64,
    /// Old entries that were deleted from the change log.
    pub pruned: u64,
}

/// Why a round is not complete. The work done so far is kept.
#[derive(Debug, Error)]
pub enum MaintainError {
    /// Another session holds a lock on a whole table.
    #[error(
        "lock timeout: another session has locked a table of schema registry for more than 500 ms. \
         The next round does what remains. If this repeats, find the session in pg_locks and \
         pg_stat_activity, and end it"
    )]
    Locked,
    /// The views are not those of the default schema.
    #[error(
        "this database has views of its own in the schema registry_read, and maintain is for the \
         default schema only; nothing was changed. Prune the change log by the DELETE in step 4 of \
         docs/upstream.md, and update the ranks by a job of your own"
    )]
    OwnViews,
    /// A statement failed.
    #[error(transparent)]
    Database(StatementError),
}

impl From<Error> for MaintainError {
    fn from(error: Error) -> Self {
        match error.code() {
            Some(&SqlState::LOCK_NOT_AVAILABLE) => Self::Locked,
            _ => Self::Database(error.into()),
        }
    }
}

/// Rows in one transaction.
const BATCH: usize = 500;

/// Wrong ranks that are read at a time. Bounds the memory, whatever the size of the domain.
const MAX_READ: usize = 10_000;

/// The lock timeout is below `deadlock_timeout` (1 s), so that in a deadlock with a session that
/// locks whole tables this one gives up. A client that stalls does not keep its locks.
const LIMITS: &str = "SET LOCAL lock_timeout = '500ms';
    SET LOCAL idle_in_transaction_session_timeout = '5s'";

/// Makes rounds take turns. Writers, who only insert, are not blocked, and no role without rights
/// on the table can take it, unlike an advisory lock.
const TAKE_TURN: &str = "LOCK TABLE registry.rank_due IN SHARE UPDATE EXCLUSIVE MODE";

const DUE: &str = "SELECT DISTINCT domain FROM registry.rank_due";

/// The wrong ranks of the domain `$1`, as `wrong (id, rank, location)`.
const WRONG_RANKS: &str = "(SELECT id, rank, location FROM (
        SELECT id, arena_rank, ctid AS location, CASE WHEN published THEN
            row_number() OVER (PARTITION BY published ORDER BY fitness_score DESC, id)
            ELSE 0 END AS rank
        FROM registry.gene WHERE domain = $1
    ) ranked WHERE arena_rank <> rank) wrong";

/// `$1`: the domain. `$2`, `$3`: ids and their ranks.
const WRITE: &str = "WITH free AS (
        SELECT id FROM registry.gene WHERE id = ANY ($2) AND domain = $1
        AND EXISTS (SELECT FROM registry.rank_due WHERE domain = $1)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE registry.gene g SET arena_rank = new.rank
    FROM free JOIN unnest($2::uuid[], $3::bigint[]) AS new (id, rank) ON new.id = free.id
    WHERE g.id = free.id";

/// Deletes at most `$2` changes that are older than two days, which concern no entry of any cache.
/// `$1`: the time to begin at, because a scan from the start would visit again what was deleted.
const PRUNE: &str = "DELETE FROM registry.change WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM registry.change
        WHERE changed_at >= $1 AND changed_at < now() - interval '48 hours'
        ORDER BY changed_at LIMIT $2 FOR UPDATE SKIP LOCKED
    )) RETURNING changed_at";

/// Updates the ranks of the domains in `registry.rank_due`, to which the triggers of the gene table
/// append, and prunes the change log. Concurrent rounds do no harm.
///
/// # Errors
///
/// [`MaintainError`]. A lock on one table does not prevent the work on others.
pub async fn run_once(client: &mut Client) -> Result<Maintained, MaintainError> {
    if client.query_one(HAS_OWN_VIEWS, &[]).await?.try_get(0)? {
        return Err(MaintainError::OwnViews);
    }
    let ranked = update_ranks(client).await;
    let pruned = prune(client).await;
    let ranked = ranked?;
    Ok(Maintained { pruned: pruned?, ..ranked })
}

async fn update_ranks(client: &mut Client) -> Result<Maintained, Error> {
    let mut done = Maintained::default();
    for row in query(client, DUE, &[]).await? {
        update_domain(client, row.try_get(0)?, &mut done).await?;
        done.domains += 1;
    }
    Ok(done)
}

async fn update_domain(
    client: &mut Client,
    domain: &str,
    done: &mut Maintained,
) -> Result<(), Error> {
    // In the order of the table's pages, each of which is then visited once.
    let read = format!(
        "SELECT id, rank, location::text FROM {WRONG_RANKS}
        WHERE location > $2::text::tid ORDER BY wrong.location LIMIT $3"
    );
    let mut after = String::from("(0,0)");
    loop {
        let rows = query(client, &read, &[&domain, &after, &(MAX_READ as i64)]).await?;
        for batch in rows.chunks(BATCH) {
            let written = write_ranks(client, domain, batch).await?;
            done.ranks += written;
            done.skipped += batch.len() as u64 - written;
        }
        match rows.last() {
            Some(last) if rows.len() == MAX_READ => after = last.try_get(2)?,
            _ => break,
        }
    }
    // Deletes the marks of the domain, all but one if a rank is wrong. In one snapshot: a mark that
    // is added meanwhile stays.
    let clear = format!(
        "DELETE FROM registry.rank_due WHERE domain = $1 AND (NOT EXISTS (SELECT FROM {WRONG_RANKS})
        OR ctid <> (SELECT ctid FROM registry.rank_due WHERE domain = $1 LIMIT 1))"
    );
    execute_in_turn(client, &clear, &[&domain]).await?;
    Ok(())
}

async fn write_ranks(client: &mut Client, domain: &str, wrong: &[Row]) -> Result<u64, Error> {
    let ids = wrong.iter().map(|row| row.try_get(0)).collect::<Result<Vec<Uuid>, _>>()?;
    let ranks = wrong.iter().map(|row| row.try_get(1)).collect::<Result<Vec<i64>, _>>()?;
    execute_in_turn(client, WRITE, &[&domain, &ids, &ranks]).await
}

/// Executes one statement in a transaction of its own, when it is this round's turn. Returns the
/// number of rows that it changed.
async fn execute_in_turn(
    client: &mut Client,
    sql: &str,
    params: &[QueryParam<'_>],
) -> Result<u64, Error> {
    let transaction = begin(client).await?;
    transaction.batch_execute(TAKE_TURN).await?;
    let changed = transaction.execute(sql, params).await?;
    transaction.commit().await?;
    Ok(changed)
}

async fn prune(client: &mut Client) -> Result<u64, Error> {
    let mut pruned = 0;
    let mut since = PgTimestamp(Timestamp::MIN);
    loop {
        let deleted = query(client, PRUNE, &[&since, &(BATCH as i64)]).await?;
        pruned += deleted.len() as u64;
        if deleted.len() < BATCH {
            return Ok(pruned);
        }
        for row in &deleted {
            since.0 = since.0.max(row.try_get::<_, PgTimestamp>(0)?.0);
        }
    }
}

/// Executes one statement in a transaction of its own.
async fn query(
    client: &mut Client,
    sql: &str,
    params: &[QueryParam<'_>],
) -> Result<Vec<Row>, Error> {
    let transaction = begin(client).await?;
    let rows = transaction.query(sql, params).await?;
    transaction.commit().await?;
    Ok(rows)
}

async fn begin(client: &mut Client) -> Result<Transaction<'_>, Error> {
    let level = IsolationLevel::ReadCommitted;
    let transaction = client.build_transaction().isolation_level(level).start().await?;
    transaction.batch_execute(LIMITS).await?;
    Ok(transaction)
}
