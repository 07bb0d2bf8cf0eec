//! A statement with the types of its parameters, and SQL fragments that several statements use.

use tokio_postgres::types::Type;

/// A statement and the types of its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    /// The types of `$1`, `$2`, …
    pub(crate) types: Vec<Type>,
}

/// True for genes within the contract (see `RawGene::check`). NULL counts as 0; NaN is above infinity.
pub(crate) const WITHIN_CONTRACT: &str =
    "fidelity::text COLLATE \"C\" IN ('Wrapped', 'Hybrid', 'Native')
    AND (fitness_score::float8 < 0 OR fitness_score::float8 >= 'Infinity'
        OR reputation_score::float8 <= '-Infinity' OR reputation_score::float8 >= 'Infinity')
        IS NOT TRUE";

/// True for evaluations that count: finite, and at a time that RFC 3339 can express.
pub(crate) const COUNTS: &str = "fitness_value::float8 >= 0 AND fitness_value::float8 < 'Infinity'
    AND evaluated_at::timestamptz >= '0001-01-01 00:00:00+00'
    AND evaluated_at::timestamptz < '9999-12-30 00:00:00+00'";

pub(crate) const FITNESS: &str = "coalesce(fitness_score::float8, 0)";

/// The stamp of a read: its time, the snapshot that it saw, and the server.
pub(super) const STAMP: &str = "now() AS read_at, pg_current_snapshot()::text AS snapshot,
    pg_is_in_recovery() AS is_standby, pg_postmaster_start_time() AS started_at";

/// A count as published: 0 to 2^53 - 1. Clamped before the cast, which fails for a larger numeric.
pub(crate) fn count(column: &str) -> String {
    format!("least(greatest(coalesce({column}, 0), 0), 9007199254740991)::bigint")
}

/// The order of evaluations.
pub(super) fn newest_first() -> String {
    let calls = count("total_calls");
    format!("evaluated_at::timestamptz DESC, fitness_value::float8 DESC, {calls} DESC")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owners of existing registries create indexes with these conditions.
    #[test]
    fn the_guide_quotes_the_conditions_as_they_are() {
        let on_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let guide = on_one_line(include_str!("../../../../docs/upstream.md"));
        for condition in [WITHIN_CONTRACT, COUNTS, FITNESS] {
            assert!(guide.contains(&on_one_line(condition)), "docs/upstream.md lacks: {condition}");
        }
    }
}
