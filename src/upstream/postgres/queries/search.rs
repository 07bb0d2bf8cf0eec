//! The searches: one statement for each combination of filter and sort, with or without the total.

use tokio_postgres::types::Type;

use super::statement::{COUNTS, FITNESS, STAMP, Statement, WITHIN_CONTRACT, count, newest_first};
use crate::registry::{GeneFilter, Sort};

/// Whether the statement of a page counts all matching genes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upstream::postgres) enum Counting {
    /// It counts them.
    WithTotal,
    /// It does not: the total is known.
    PageAlone,
}

/// The statement that counts the genes that a filter matches. Parameters: domain and fidelity, each if the filter has it.
pub(in crate::upstream::postgres) fn counts(filter: &GeneFilter) -> Statement {
    let mut types = Vec::new();
    let condition = condition(filter, &mut types);
    let sql = format!("SELECT {STAMP}, counted.* FROM {} counted", counted(&condition));
    Statement { sql, types }
}

/// The statement of a search, which reads one page with its total in one snapshot. Parameters: limit,
/// offset, then domain and fidelity, each if the filter has it.
///
/// The ids of the page are found first, which skips rows by an index-only scan. An empty page is one
/// row in which all columns of the gene are NULL.
pub(in crate::upstream::postgres) fn search(
    filter: &GeneFilter,
    sort: Sort,
    counting: Counting,
) -> Statement {
    let mut types = vec![Type::INT8, Type::INT8];
    let condition = condition(filter, &mut types);
    let counted = match counting {
        Counting::WithTotal => counted(&condition),
        Counting::PageAlone => "(SELECT NULL::bigint AS total, NULL::bigint AS broken)".to_owned(),
    };
    let page = page(&condition, sort);
    let sql = format!(
        "SELECT {STAMP}, counted.total, counted.broken, page.*
        FROM {counted} counted LEFT JOIN LATERAL {page} page ON true
        ORDER BY page.value DESC, page.id"
    );
    Statement { sql, types }
}

/// The condition of a filter, to follow another one. Its parameters are added to `types`.
fn condition(filter: &GeneFilter, types: &mut Vec<Type>) -> String {
    let mut condition = String::new();
    for (column, is_filtered) in
        [("domain", filter.domain.is_some()), ("fidelity", filter.fidelity.is_some())]
    {
        if is_filtered {
            types.push(Type::TEXT);
            condition += &format!(" AND {column}::text COLLATE \"C\" = ${}", types.len());
        }
    }
    condition
}

/// Counts the genes that match a filter, and those that match but violate the contract.
fn counted(condition: &str) -> String {
    format!(
        "(SELECT
            (SELECT count(*) FROM registry_read.gene
                WHERE id IS NOT NULL{condition} AND {WITHIN_CONTRACT}) AS total,
            (SELECT count(*) FROM registry_read.gene
                WHERE ({WITHIN_CONTRACT}) IS NOT TRUE{condition}) AS broken
        )"
    )
}

/// The genes of one page. `$1`: limit, `$2`: offset.
fn page(condition: &str, sort: Sort) -> String {
    let sort = match sort {
        Sort::Fitness => FITNESS.to_owned(),
        Sort::Reputation => "coalesce(reputation_score::float8, 0)".to_owned(),
        Sort::Downloads => count("downloads"),
    };
    let (downloads, arena_rank, calls) =
        (count("g.downloads"), count("g.arena_rank"), count("total_calls"));
    let newest_first = newest_first();
    format!(
        "(
            SELECT found.value, g.id::uuid AS id, g.name::text AS name,
                g.domain::text AS domain, g.fidelity::text AS fidelity,
                g.description::text AS description, g.owner::text AS owner,
                g.fitness_score::float8 AS fitness_score,
                g.reputation_score::float8 AS reputation_score,
                {downloads} AS downloads, {arena_rank} AS arena_rank,
                history.fitness_values, history.times, history.calls
            FROM (
                SELECT id, {sort} AS value FROM registry_read.gene
                WHERE id IS NOT NULL{condition} AND {WITHIN_CONTRACT}
                ORDER BY {sort} DESC, id LIMIT $1 OFFSET $2
            ) found
            JOIN registry_read.gene g ON g.id = found.id
            CROSS JOIN LATERAL (
                SELECT array_agg(fitness_value) AS fitness_values,
                    array_agg(evaluated_at) AS times, array_agg(calls) AS calls
                FROM (
                    SELECT fitness_value::float8, evaluated_at::timestamptz, {calls} AS calls
                    FROM registry_read.arena_evaluation
                    WHERE gene_id = found.id AND {COUNTS}
                    ORDER BY {newest_first} LIMIT 10
                ) newest
            ) history
        )"
    )
}
