//! The searches: one statement for each combination of filter and sort, with or without the total.

use tokio_postgres::types::Type;

use super::fragments::{count, counts, fitness, newest_first, stamp, within_contract};
use super::statement::Statement;
use crate::registry::{GeneFilter, Sort};

/// Counts the genes that match a filter, and those that match but violate the contract.
macro_rules! counted {
    ($filter:literal) => {
        concat!(
            "(SELECT
                (SELECT count(*) FROM registry_read.gene
                    WHERE id IS NOT NULL",
            $filter,
            " AND ",
            within_contract!(),
            ") AS total,
                (SELECT count(*) FROM registry_read.gene
                    WHERE (",
            within_contract!(),
            ") IS NOT TRUE",
            $filter,
            ") AS broken
            )"
        )
    };
}

/// The same columns for pages whose total is known.
macro_rules! not_counted {
    ($filter:literal) => {
        "(SELECT NULL::bigint AS total, NULL::bigint AS broken)"
    };
}

/// Reads one page with its total, in one statement and so in one snapshot. `$1`: limit, `$2`: offset.
///
/// The ids of the page are found first, which skips rows by an index-only scan. An empty page is one
/// row in which all columns of the gene are NULL.
macro_rules! search {
    ($counted:ident, $filter:literal, $sort:expr) => {
        concat!(
            "SELECT ",
            stamp!(),
            ", counted.total, counted.broken, page.*
            FROM ",
            $counted!($filter),
            " counted
            LEFT JOIN LATERAL (
                SELECT found.value, g.id::uuid AS id, g.name::text AS name,
                    g.domain::text AS domain, g.fidelity::text AS fidelity,
                    g.description::text AS description, g.owner::text AS owner,
                    g.fitness_score::float8 AS fitness_score,
                    g.reputation_score::float8 AS reputation_score,
                    ",
            count!("g.downloads"),
            " AS downloads,
                    ",
            count!("g.arena_rank"),
            " AS arena_rank,
                    history.fitness_values, history.times, history.calls
                FROM (
                    SELECT id, ",
            $sort,
            " AS value
                    FROM registry_read.gene
                    WHERE id IS NOT NULL",
            $filter,
            " AND ",
            within_contract!(),
            "
                    ORDER BY ",
            $sort,
            " DESC, id LIMIT $1 OFFSET $2
                ) found
                JOIN registry_read.gene g ON g.id = found.id
                CROSS JOIN LATERAL (
                    SELECT array_agg(fitness_value) AS fitness_values,
                        array_agg(evaluated_at) AS times, array_agg(calls) AS calls
                    FROM (
                        SELECT fitness_value::float8, evaluated_at::timestamptz,
                            ",
            count!("total_calls"),
            " AS calls
                        FROM registry_read.arena_evaluation
                        WHERE gene_id = found.id AND ",
            counts!(),
            "
                        ORDER BY ",
            newest_first!(),
            " LIMIT 10
                    ) newest
                ) history
            ) page ON true
            ORDER BY page.value DESC, page.id"
        )
    };
}

macro_rules! by_sort {
    ($counted:ident, $filter:literal, $sort:expr) => {
        match $sort {
            Sort::Fitness => search!($counted, $filter, fitness!()),
            Sort::Reputation => search!($counted, $filter, "coalesce(reputation_score::float8, 0)"),
            Sort::Downloads => search!($counted, $filter, count!("downloads")),
        }
    };
}

macro_rules! searches {
    ($filter:literal, $types:expr, $sort:expr, $counting:expr) => {
        Statement {
            sql: match $counting {
                Counting::WithTotal => by_sort!(counted, $filter, $sort),
                Counting::PageAlone => by_sort!(not_counted, $filter, $sort),
            },
            types: $types,
        }
    };
}

/// Whether the statement of a page counts all matching genes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upstream::postgres) enum Counting {
    /// It counts them.
    WithTotal,
    /// It does not: the total is known.
    PageAlone,
}

/// The statement of a search. Parameters: limit, offset, then domain and fidelity, each if the filter
/// has it.
pub(in crate::upstream::postgres) fn search(
    filter: &GeneFilter,
    sort: Sort,
    counting: Counting,
) -> Statement {
    const ALL: &[Type] = &[Type::INT8, Type::INT8];
    const BY_ONE: &[Type] = &[Type::INT8, Type::INT8, Type::TEXT];
    const BY_BOTH: &[Type] = &[Type::INT8, Type::INT8, Type::TEXT, Type::TEXT];
    match (&filter.domain, filter.fidelity) {
        (None, None) => searches!("", ALL, sort, counting),
        (Some(_), None) => searches!(" AND domain::text = $3", BY_ONE, sort, counting),
        (None, Some(_)) => searches!(" AND fidelity::text = $3", BY_ONE, sort, counting),
        (Some(_), Some(_)) => {
            searches!(" AND domain::text = $3 AND fidelity::text = $4", BY_BOTH, sort, counting)
        }
    }
}
