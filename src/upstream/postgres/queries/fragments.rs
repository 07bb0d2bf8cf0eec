//! SQL fragments that several statements use.

/// True for genes within the contract (see `RawGene::check`). NULL counts as 0; NaN is above infinity.
macro_rules! within_contract {
    () => {
        "fidelity::text IN ('Wrapped', 'Hybrid', 'Native')
        AND (fitness_score::float8 < 0 OR fitness_score::float8 >= 'Infinity'
            OR reputation_score::float8 <= '-Infinity' OR reputation_score::float8 >= 'Infinity')
            IS NOT TRUE"
    };
}

/// True for evaluations that count: finite, and at a time that RFC 3339 can express.
macro_rules! counts {
    () => {
        "fitness_value::float8 >= 0 AND fitness_value::float8 < 'Infinity'
        AND evaluated_at::timestamptz >= '0001-01-01 00:00:00+00'
        AND evaluated_at::timestamptz < '9999-12-30 00:00:00+00'"
    };
}

/// A count as published: 0 to 2^53 - 1. Clamped before the cast, which fails for a larger numeric.
macro_rules! count {
    ($column:literal) => {
        concat!("least(greatest(coalesce(", $column, ", 0), 0), 9007199254740991)::bigint")
    };
}

macro_rules! fitness {
    () => {
        "coalesce(fitness_score::float8, 0)"
    };
}

/// The stamp of a read: its time, the snapshot that it saw, and the server.
macro_rules! stamp {
    () => {
        "now() AS read_at, pg_current_snapshot()::text AS snapshot,
            pg_is_in_recovery() AS is_standby, pg_postmaster_start_time() AS started_at"
    };
}

macro_rules! newest_first {
    () => {
        concat!(
            "evaluated_at::timestamptz DESC, fitness_value::float8 DESC, ",
            count!("total_calls"),
            " DESC"
        )
    };
}

pub(super) use {count, counts, fitness, newest_first, stamp, within_contract};
