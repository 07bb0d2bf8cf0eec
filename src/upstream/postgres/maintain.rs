//! Maintenance of the default schema: arena ranks, and the size of the change log.

use tokio_postgres::{Client, Error};

/// The result of one round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Domains whose ranks were recomputed.
    pub domains: u64,
    /// Genes whose rank changed.
    pub ranks: u64,
    /// Old entries that were deleted from the change log.
    pub pruned: u64,
}

/// Recomputes a domain's ranks and deletes its marks in `rank_due`, in one statement and so in one
/// snapshot: a mark that is added meanwhile stays for the next round. Only rows whose rank changes
/// are locked. `$1`: the domain.
const RANK: &str = "WITH done AS (
        DELETE FROM registry.rank_due WHERE domain = $1
    ),
    ranked AS (
        SELECT id, CASE WHEN published THEN
            row_number() OVER (PARTITION BY published ORDER BY fitness_score DESC, id)
            ELSE 0 END AS rank
        FROM registry.gene WHERE domain = $1
    )
    UPDATE registry.gene g SET arena_rank = ranked.rank
    FROM ranked WHERE g.id = ranked.id AND g.arena_rank <> ranked.rank";

/// Older changes concern no entry of any cache.
const PRUNE: &str = "DELETE FROM registry.change WHERE changed_at < now() - interval '48 hours'";

/// Updates the ranks of the domains in `registry.rank_due`, to which the triggers of the gene table
/// append, and prunes the change log. Concurrent rounds do no harm.
///
/// # Errors
///
/// The database rejects a statement, or the connection is lost. The work done so far is kept.
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
