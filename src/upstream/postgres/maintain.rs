//! The default schema's housekeeping.

use tokio_postgres::{Client, Error};

/// What one round did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Domains whose ranks were computed again.
    pub domains: u64,
    /// Genes whose rank was another one.
    pub ranks: u64,
    /// Entries of the change log that had grown old.
    pub pruned: u64,
}

/// Computes a domain's ranks and takes back the marks that asked for it, in one statement and
/// so in one snapshot: a mark made meanwhile stays for the next round. Rows are locked only
/// where the rank changes, which keeps no reader waiting. `$1` the domain.
const RANK: &str = "WITH answered AS (
        DELETE FROM registry.rank_due WHERE domain = $1
    ),
    ranked AS (
        SELECT id, CASE WHEN published THEN
            row_number() OVER (PARTITION BY published ORDER BY fitness_score DESC, id)
            ELSE 0 END AS place
        FROM registry.gene WHERE domain = $1
    )
    UPDATE registry.gene g SET arena_rank = ranked.place
    FROM ranked WHERE g.id = ranked.id AND g.arena_rank <> ranked.place";

/// Older entries of the change log concern no entry of any cache.
const PRUNE: &str = "DELETE FROM registry.change WHERE changed_at < now() - interval '48 hours'";

/// Brings the ranks of the domains that changed up to date, and prunes the change log.
///
/// Which domains those are is known from `registry.rank_due`, which the triggers of the gene
/// table append to. Several rounds at once do no harm.
///
/// # Errors
///
/// The database refuses a statement, or goes away. What was done till then stays done.
pub async fn run_once(client: &mut Client) -> Result<Maintained, Error> {
    let mut maintained = Maintained::default();
    let due = client.query("SELECT DISTINCT domain FROM registry.rank_due", &[]).await?;
    let rank = client.prepare(RANK).await?;
    for row in due {
        let domain: String = row.try_get("domain")?;
        maintained.ranks += client.execute(&rank, &[&domain]).await?;
        maintained.domains += 1;
    }
    maintained.pruned = client.execute(PRUNE, &[]).await?;
    Ok(maintained)
}
