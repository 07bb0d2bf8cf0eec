//! Every metric of the service: the one list, which `/metrics` takes its help texts from and
//! `docs/metrics.md` is made of.

#[cfg(test)]
use std::fmt::Write as _;

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts in buckets, with their sum.
    Histogram,
}

impl Kind {
    /// As the text format calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Series {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

/// The metric of this name.
pub(super) fn find(name: &str) -> Option<&'static Series> {
    ALL.iter().find(|series| series.name == name)
}

/// The list as a table in Markdown.
#[cfg(test)]
fn table() -> String {
    let mut text = String::from("| name | kind | labels | meaning |\n|---|---|---|---|\n");
    for Series { name, kind, labels, help } in ALL {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        // Writing to a string does not fail.
        let _ = writeln!(text, "| `{name}` | {} | {labels} | {help} |", kind.as_str());
    }
    text
}

macro_rules! series {
    ($($kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        &[$(Series { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help }),*]
    };
}

/// All of them. Units are seconds, bytes and ratios of 1.
pub const ALL: &[Series] = series! {
    Counter "gene_registry_requests_total" ["route", "method", "status"]
        "requests answered on the public listener; a route that does not exist is `unknown`, an unusual method `other`";
    Histogram "gene_registry_request_seconds" ["route", "method", "status"]
        "time from a request's head to its answer, seconds";
    Counter "gene_registry_answers_total" ["source"]
        "answers by where they were found: `local`, `shared` (Redis), `miss`, `collapsed` (with another request's read), `stale-if-error`, `stale-if-busy`";
    Counter "gene_registry_control_requests_total" ["route", "method", "status"]
        "requests answered on the control listener";
    Counter "gene_registry_loads_total" ["result"]
        "reads from the upstream for the caches, `ok` or `failed`";
    Gauge "gene_registry_misses" ["state"]
        "reads from the upstream for the caches: `reading`, or `queued` for their turn";
    Counter "gene_registry_shed_total" ["what"]
        "reads for which there was no room: `miss` and `deep_walk` (503, or an older answer), `refresh` (nobody waited)";
    Counter "gene_registry_refreshes_total" []
        "stale answers read again behind the one sent";
    Counter "gene_registry_waits_for_other_replica_total" []
        "times another replica's read was waited for";
    Counter "gene_registry_not_current_total" []
        "answers at hand that a known change concerned";
    Counter "gene_registry_shared_undecodable_total" []
        "answers in Redis that could not be decoded";
    Counter "gene_registry_shared_too_large_total" []
        "answers over `cache.shared_max_entry_bytes`";
    Counter "gene_registry_shared_write_failures_total" []
        "writes that Redis refused or did not answer";
    Gauge "gene_registry_local_cache_bytes" []
        "weight of the answers held in this process, bytes";
    Gauge "gene_registry_local_cache_max_bytes" []
        "`cache.local_max_bytes`";
    Gauge "gene_registry_local_cache_entries" []
        "answers held in this process";
    Counter "gene_registry_key_lookups_total" ["result"]
        "look-ups of API keys, `ok` or `failed`";
    Counter "gene_registry_key_lookups_refused_total" []
        "keys never seen that were not looked up, for there were too many";
    Gauge "gene_registry_key_records" ["known"]
        "API keys remembered: with their record (`yes`), or that there is none (`no`)";
    Counter "gene_registry_limit_decisions_total" ["result"]
        "requests with a valid key: `admitted`, `refused`, `refused_locally` (the window was known to be full), `unenforced` (over the limit, let through), `not_counted` (503)";
    Counter "gene_registry_limit_decided_alone_total" []
        "of these, decided by this replica's own share because Redis gave no count";
    Histogram "gene_registry_limit_wait_seconds" []
        "time a request waited for its count, seconds";
    Histogram "gene_registry_limit_round_trip_seconds" ["outcome"]
        "round trips to Redis for counts (`answered`, `failed`), seconds";
    Histogram "gene_registry_limit_batch_requests" []
        "requests counted in one round trip";
    Histogram "gene_registry_limit_batch_commands" []
        "commands in one round trip: one a key";
    Gauge "gene_registry_limit_policy" ["state"]
        "1 for how limits are held now: `shared`, `local` (by this replica's own share), `refusing` (not counted, 503); else 0";
    Gauge "gene_registry_ready" []
        "1 while requests should be sent here, as `/readyz` says, else 0";
    Gauge "gene_registry_upstream_in_use" []
        "1 while the database is read, at the primary or at a standby, 0 while it is known to be away";
    Gauge "gene_registry_primary_in_use" []
        "1 while the primary is read, 0 while it is known to be away; absent without `upstream.read_urls`";
    Gauge "gene_registry_standby_in_use" ["standby"]
        "1 while a standby is read, else 0; by its place in `upstream.read_urls`, from 1";
    Gauge "gene_registry_standby_lag_seconds" ["standby"]
        "time by which it lags at most, seconds; a second or two when it does not; absent while that is not known";
    Counter "gene_registry_standby_reads_total" ["standby", "result"]
        "reads of a standby: `answered`, `behind` (it lacked a known change, so the primary was read), `failed` (likewise)";
    Counter "gene_registry_timeline_switches_total" []
        "times the database was found to have begun another history: a standby was promoted, or a copy restored";
    Gauge "gene_registry_redis_in_use" ["side"]
        "1 while commands of this side (`read`, `write`) are sent to Redis, in a cluster to all its primaries, else 0; absent without Redis";
    Counter "gene_registry_breaker_openings_total" ["store"]
        "times a store (`postgres`, `redis_read`, `redis_write`) was found to be away";
    Gauge "gene_registry_pool_connections" ["pool", "state"]
        "connections of a pool, `in_use` or `idle`: `postgres` (reads), `postgres_side` (change log and pings), `postgres_standbys` and `postgres_standbys_side` (all standbys together), `redis` (cache), `redis_limits`";
    Gauge "gene_registry_pool_max_connections" ["pool"]
        "connections that a pool may have; less than configured while the server gives no more";
    Gauge "gene_registry_pool_waiting" ["pool"]
        "requests that wait for a connection of a pool";
    Gauge "gene_registry_change_log_age_seconds" []
        "time since the change log was last read, or, without one, since the database last answered, seconds";
    Counter "gene_registry_change_log_polls_total" ["result"]
        "looks into the change log, `ok` or `failed`";
    Counter "gene_registry_change_log_changes_total" []
        "changes found in it, without those of the first look";
    Gauge "gene_registry_broken_rows" []
        "genes left out because they break the contract, as of the latest unfiltered search";
    Gauge "gene_registry_domain_genes" ["domain"]
        "`gene_count` of the arena answer that this replica holds; at most 100 domains, those read from the database in the last five minutes because somebody asked for them";
    Gauge "gene_registry_domain_shannon_diversity" ["domain"]
        "its `shannon_diversity`";
    Gauge "gene_registry_domain_turnover_ratio" ["domain"]
        "its `turnover_rate`";
    Gauge "gene_registry_domain_mean_fitness" ["domain"]
        "its `avg_fitness`";
    Gauge "gene_registry_domain_evaluations" ["domain"]
        "its `total_arena_evaluations`";
    Gauge "gene_registry_domain_read_timestamp_seconds" ["domain"]
        "when the database was read for it, seconds since 1970";
    Gauge "gene_registry_tasks" []
        "asynchronous tasks that have not ended";
    Gauge "gene_registry_certificate_expiry_timestamp_seconds" []
        "when the public listener's certificate ends, seconds since 1970; absent without TLS";
    Counter "gene_registry_certificate_reloads_total" ["result"]
        "times its files had changed: `ok`, or `failed`, with the one before still in use";
    Gauge "gene_registry_build_info" ["version"]
        "1";
    Gauge "process_resident_memory_bytes" []
        "memory in use, bytes";
    Gauge "process_virtual_memory_bytes" []
        "address space in use, bytes";
    Counter "process_cpu_seconds_total" []
        "processor time used, seconds";
    Gauge "process_start_time_seconds" []
        "when the process began, seconds since 1970";
    Gauge "process_open_fds" []
        "open file descriptors";
    Gauge "process_max_fds" []
        "file descriptors that may be open";
    Gauge "process_threads" []
        "threads";
};

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../docs/metrics.md");

    #[test]
    fn the_document_has_exactly_this_list() {
        let written: String = DOCUMENT.lines().filter(|line| line.starts_with('|')).fold(
            String::new(),
            |mut text, line| {
                text.push_str(line);
                text.push('\n');
                text
            },
        );
        let table = table();
        assert!(written == table, "docs/metrics.md: its table should be\n\n{table}");
    }

    #[test]
    fn names_follow_the_conventions() {
        for Series { name, kind, .. } in ALL {
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            for other in ["_ms", "_milliseconds", "_us", "_kb", "_percent", "_count", "_minutes"] {
                assert!(!base.ends_with(other), "{name}: base units only");
            }
            assert_eq!(ALL.iter().filter(|other| other.name == *name).count(), 1, "{name}");
        }
    }
}
