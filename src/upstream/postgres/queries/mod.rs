//! Every statement of the read path. They read only schema `registry_read`, and name every column.
//!
//! The expressions that filter and sort genes are identical to those of the indexes in the default
//! schema (`migrations/`). The casts also support views of an existing registry, whose columns may
//! have other types; on the default schema they have no effect. Texts are compared byte by byte,
//! whatever the collation of their columns. Each combination of filter and sort is a statement of its
//! own, so that it gets its own plan.

mod search;
mod statement;

use std::sync::LazyLock;

use tokio_postgres::types::Type;

use crate::registry::RegistryNumbers;
use statement::{STAMP, newest_first};

pub(super) use search::{Counting, counts, search};
pub(crate) use statement::{COUNTS, FITNESS, Statement, WITHIN_CONTRACT, count};

/// The views of schema `registry_read`, with the types of their columns. The last is optional.
pub(crate) const VIEWS: [(&str, &str); 4] = [
    (
        "gene",
        "id uuid, name text, domain text, fidelity text, description text, owner text, \
         fitness_score double precision, reputation_score double precision, downloads bigint, \
         arena_rank bigint, phenotype jsonb, install_command text, min_playground_version text, \
         required_fidelity text",
    ),
    (
        "arena_evaluation",
        "gene_id uuid, fitness_value double precision, evaluated_at timestamp with time zone, \
         total_calls bigint",
    ),
    (
        "api_key",
        "key_hash bytea, prefix text, owner text, name text, scopes text[], \
         rate_limit_per_minute integer, created_at timestamp with time zone, \
         expires_at timestamp with time zone, revoked_at timestamp with time zone",
    ),
    ("change", "scope text, changed_in xid8, changed_at timestamp with time zone"),
];

/// Reads one gene's phenotype. `$1`: its id. Returns one row always, which has the read's stamp.
pub(crate) static PHENOTYPE: LazyLock<Statement> = LazyLock::new(|| Statement {
    sql: format!(
        "SELECT {STAMP}, g.*
        FROM (SELECT) one LEFT JOIN LATERAL (
            SELECT id::uuid AS id, name::text AS name, domain::text AS domain,
                fidelity::text AS fidelity, fitness_score::float8 AS fitness_score,
                reputation_score::float8 AS reputation_score, phenotype::json AS phenotype,
                install_command::text AS install_command,
                min_playground_version::text AS min_playground_version,
                required_fidelity::text AS required_fidelity
            FROM registry_read.gene WHERE id = $1 LIMIT 1
        ) g ON true"
    ),
    types: vec![Type::UUID],
});

/// Reads the sums that a domain's arena is computed of. `$1`: the domain, `$2`: the time from which
/// the turnover is measured. Returns one row for each gene of the current top, and at least one.
///
/// `standing` visits each gene's evaluations once, by an index-only scan in the order of the
/// genes' ids. Sums are of fitness divided by `scale` (see `registry::arena::FitnessSums`);
/// what vanishes beside a huge scale counts as 0, because Postgres fails if a division underflows
/// (5e-324 is the least positive number). The order of a sum changes its last digits, and the plan
/// changes the order: shares are summed in ascending order, so that all replicas compute the same.
pub(crate) static INSIGHTS: LazyLock<Statement> = LazyLock::new(|| Statement {
    sql: format!(
        "WITH gene AS NOT MATERIALIZED (
            SELECT id, name, {FITNESS} AS fitness
            FROM registry_read.gene
            WHERE id IS NOT NULL AND domain::text COLLATE \"C\" = $1 AND {WITHIN_CONTRACT}
        ),
        scaled AS MATERIALIZED (
            SELECT CASE WHEN largest > 1e100 THEN largest ELSE 1::float8 END AS scale
            FROM (SELECT max(fitness) AS largest FROM gene) best
        ),
        standing AS MATERIALIZED (
            SELECT gene.id, gene.fitness, evaluated.evaluations, evaluated.fitness_then
            FROM gene CROSS JOIN LATERAL (
                SELECT count(*) AS evaluations,
                    (array_agg(fitness_value) FILTER (WHERE evaluated_at <= $2))[1] AS fitness_then
                FROM (
                    SELECT fitness_value::float8, evaluated_at::timestamptz
                    FROM registry_read.arena_evaluation
                    WHERE gene_id = gene.id AND {COUNTS}
                    ORDER BY evaluated_at::timestamptz DESC, fitness_value::float8 DESC
                ) newest_first
            ) evaluated
        ),
        summed AS (
            SELECT count(*) AS gene_count,
                count(*) FILTER (WHERE share > 0) AS positive,
                coalesce(sum(share), 0) AS sum,
                coalesce(sum(share * ln(share)) FILTER (WHERE share > 0), 0) AS sum_f_ln_f,
                count(*) FILTER (WHERE evaluations > 0) AS evaluated_count,
                coalesce(sum(share) FILTER (WHERE evaluations > 0), 0) AS evaluated_sum,
                coalesce(sum(evaluations), 0)::bigint AS evaluations
            FROM (
                SELECT evaluations, CASE WHEN scale = 1 THEN fitness
                    WHEN fitness < scale * '5e-324'::float8 THEN 0 ELSE fitness / scale END AS share
                FROM standing CROSS JOIN scaled
                ORDER BY share
            ) shares
        )
        SELECT {STAMP}, summed.*, scaled.scale,
            ARRAY(
                SELECT id::uuid FROM standing WHERE fitness_then IS NOT NULL
                ORDER BY fitness_then DESC, id LIMIT 5
            ) AS top_then,
            top.id::uuid AS id, top.name::text AS name, top.fitness, top.newest
        FROM summed CROSS JOIN scaled
        LEFT JOIN LATERAL (
            SELECT best.id, best.name, best.fitness, ARRAY(
                SELECT fitness_value::float8 FROM registry_read.arena_evaluation
                WHERE gene_id = best.id AND {COUNTS}
                ORDER BY {newest_first} LIMIT 5
            ) AS newest
            FROM (
                SELECT id, name, fitness FROM gene
                WHERE EXISTS (
                    SELECT FROM registry_read.arena_evaluation
                    WHERE gene_id = gene.id AND {COUNTS}
                )
                ORDER BY fitness DESC, id LIMIT 5
            ) best
        ) top ON true
        ORDER BY top.fitness DESC, top.id",
        newest_first = newest_first()
    ),
    types: vec![Type::TEXT, Type::TIMESTAMPTZ],
});

/// Counts the genes of all domains. Returns one row for each of the largest domains, and at least one.
pub(crate) static NUMBERS: LazyLock<Statement> = LazyLock::new(|| Statement {
    sql: format!(
        "WITH counted AS MATERIALIZED (
            SELECT nullif(domain::text, '') COLLATE \"C\" AS domain, count(*) AS genes
            FROM registry_read.gene WHERE id IS NOT NULL AND {WITHIN_CONTRACT} GROUP BY 1
        )
        SELECT {STAMP}, total.genes AS all_genes, total.domains AS all_domains,
            largest.domain, largest.genes
        FROM (
            SELECT coalesce(sum(genes), 0)::bigint AS genes, count(domain) AS domains FROM counted
        ) total LEFT JOIN LATERAL (
            SELECT domain, genes FROM counted WHERE domain IS NOT NULL
            ORDER BY genes DESC, domain LIMIT {max}
        ) largest ON true
        ORDER BY largest.genes DESC, largest.domain",
        max = RegistryNumbers::MAX_DOMAINS
    ),
    types: Vec::new(),
});

/// Reads the records of API keys. `$1`: their hashes. Returns one row for each, in their order;
/// `found` is false for an unknown key.
pub(crate) static API_KEYS: LazyLock<Statement> = LazyLock::new(|| Statement {
    sql: format!(
        "SELECT {STAMP}, coalesce(key.found, false) AS found, key.*
        FROM unnest($1) WITH ORDINALITY requested (hash, index) LEFT JOIN LATERAL (
            SELECT true AS found, prefix::text AS prefix, owner::text AS owner,
                name::text AS name, scopes::text[] AS scopes,
                least(greatest(coalesce(rate_limit_per_minute, 30), 0), 2147483647)::bigint
                    AS rate_limit_per_minute,
                expires_at::timestamptz AS expires_at, revoked_at::timestamptz AS revoked_at
            FROM registry_read.api_key WHERE key_hash = requested.hash LIMIT 1
        ) key ON true
        ORDER BY requested.index"
    ),
    types: vec![Type::BYTEA_ARRAY],
});

/// Maximum number of changes of genes, and of keys, in one poll; more count as a change of all.
pub(super) const MAX_CHANGES: usize = 5_000;

/// Reads changes from the log into one row, so that a poll costs the same whatever its number of
/// changes and of open transactions. Numbers that this cluster has not reached are another's.
fn changes(which: &str) -> String {
    format!(
        "WITH found AS (
            SELECT scope::text COLLATE \"C\" AS scope, changed_in::text::bigint AS xid,
                split_part(scope::text COLLATE \"C\", ':', 1) AS kind
            FROM registry_read.change
            WHERE changed_in < pg_snapshot_xmax(pg_current_snapshot()) AND ({which})
        ),
        kept AS (
            (SELECT scope, xid FROM found WHERE kind IN ('gene', 'domain', 'genes') LIMIT 5001)
            UNION ALL
            (SELECT scope, xid FROM found WHERE kind IN ('key', 'keys') LIMIT 5001)
            UNION ALL
            (SELECT DISTINCT 'all', xid FROM found
            WHERE kind IN ('gene', 'domain', 'genes', 'key', 'keys') IS NOT TRUE LIMIT 16)
        )
        SELECT {STAMP}, (SELECT array_agg(scope) FROM kept) AS scopes,
            (SELECT array_agg(xid) FROM kept) AS xids,
            other_cluster.count AS foreign_count, other_cluster.newest AS foreign_newest
        FROM (
            SELECT count(*) AS count, max(changed_at)::timestamptz AS newest
            FROM registry_read.change
            WHERE changed_in >= pg_snapshot_xmax(pg_current_snapshot())
        ) other_cluster"
    )
}

/// Whether there is a change log. Unlike reading a missing one, this logs no error in the
/// registry's database.
pub(super) static HAS_LOG: LazyLock<Statement> = LazyLock::new(|| Statement {
    sql: format!("SELECT {STAMP}, to_regclass('registry_read.change') IS NOT NULL AS has_log"),
    types: vec![],
});

/// Reads the changes that a snapshot does not see. `$1`: its xmax, `$2`: the transactions that were
/// running, as the text of an array.
pub(super) static CHANGES_SINCE: LazyLock<Statement> = LazyLock::new(|| Statement {
    sql: changes("changed_in >= $1::text::xid8 OR changed_in = ANY ($2::text::xid8[])"),
    types: vec![Type::TEXT, Type::TEXT],
});

/// Reads the changes of the last hours. `$1`: how many.
pub(super) static CHANGES_OF_HORIZON: LazyLock<Statement> = LazyLock::new(|| Statement {
    sql: changes("changed_at > now() - make_interval(hours => $1)"),
    types: vec![Type::INT4],
});

/// Reads when a transaction logged a change. `$1`: its number.
pub(super) static CHANGED_AT: LazyLock<Statement> = LazyLock::new(|| Statement {
    sql: "SELECT max(changed_at)::timestamptz AS changed_at FROM registry_read.change
        WHERE changed_in = $1::text::xid8"
        .to_owned(),
    types: vec![Type::TEXT],
});

/// Reads the replication position. The position in the log is read after the snapshot, so it
/// includes all that the snapshot sees. The names of log files begin with their timeline; a standby
/// has replayed a part of the timelines that its control file names.
pub(super) static POSITION: LazyLock<Statement> = LazyLock::new(|| Statement {
    sql: format!(
        "SELECT {STAMP},
            (SELECT oid FROM pg_database WHERE datname = current_database()) AS database,
            (SELECT system_identifier FROM pg_control_system()) AS cluster,
            (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                ELSE pg_current_wal_insert_lsn() END - '0/0'::pg_lsn)::bigint AS wal,
            CASE WHEN pg_is_in_recovery()
                THEN (SELECT greatest(timeline_id, min_recovery_end_timeline)::bigint
                    FROM pg_control_checkpoint(), pg_control_recovery())
                ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
                END AS timeline"
    ),
    types: vec![],
});

/// As [`POSITION`], on a server that tells only when it was started.
pub(super) static SERVER: LazyLock<Statement> = LazyLock::new(|| Statement {
    sql: format!(
        "SELECT {STAMP},
            (SELECT oid FROM pg_database WHERE datname = current_database()) AS database,
            NULL::bigint AS cluster, NULL::bigint AS wal, NULL::bigint AS timeline"
    ),
    types: vec![],
});

/// Fails if the database's encoding cannot hold the text `$1`.
pub(super) static HOLDS_TEXT: LazyLock<Statement> =
    LazyLock::new(|| Statement { sql: "SELECT $1 IS NULL".to_owned(), types: vec![Type::TEXT] });

/// Reads one row of each required view, with each column that requests need.
pub(super) static VIEWS_READ: LazyLock<Statement> = LazyLock::new(|| {
    let one_row = VIEWS[..3].iter().map(|(view, columns)| {
        let names = columns.split(", ").filter_map(|column| column.split(' ').next());
        let names = names.filter(|name| *name != "created_at").collect::<Vec<_>>().join(", ");
        format!("(SELECT count(*) FROM (SELECT {names} FROM registry_read.{view} LIMIT 1) {view})")
    });
    let sql = format!("SELECT {}", one_row.collect::<Vec<_>>().join(" + "));
    Statement { sql, types: vec![] }
});
