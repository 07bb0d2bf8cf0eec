//! The catalog of all metrics: the source of the help texts in `/metrics` and of `docs/metrics.md`.

#[cfg(test)]
use std::fmt::Write as _;

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only increases while the process runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values in buckets, with their sum.
    Histogram,
}

impl MetricKind {
    /// Its name in the text format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric with its documentation.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the columns of docs/metrics.md")]
pub struct MetricDescription {
    pub name: &'static str,
    pub kind: MetricKind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

/// The metric of this name.
pub(super) fn find(name: &str) -> Option<&'static MetricDescription> {
    ALL.iter().chain(CANARY).find(|metric| metric.name == name)
}

/// The metrics as a Markdown table.
#[cfg(test)]
fn table(metrics: &[MetricDescription]) -> String {
    let mut text = String::from("| name | kind | labels | meaning |\n|---|---|---|---|\n");
    for MetricDescription { name, kind, labels, help } in metrics {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {} | {labels} | {help} |", kind.as_str());
    }
    text
}

macro_rules! catalog {
    ($($kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        &[$(MetricDescription { name: $name, kind: MetricKind::$kind, labels: &[$($label),*], help: $help }),*]
    };
}

/// All metrics. Units are seconds, bytes and ratios from 0 to 1.
pub const ALL: &[MetricDescription] = catalog! {
    Counter "gene_registry_requests_total" ["route", "method", "status"]
        "requests on the public listener; unknown routes count as `unknown`, unusual methods as `other`; each series is absent until its first request, except those of GET with the status 500, 502 or 503";
    Histogram "gene_registry_request_seconds" ["route", "method", "status"]
        "time from the head of a request on the public listener to its response, seconds; each series is absent until its first request";
    Counter "gene_registry_answers_total" ["source"]
        "responses by where they were found: `local`, `shared` (Redis), `unconfirmed` (a cached response that may have changed in the last seconds), `miss` (read from the upstream), `collapsed` (shared the read of a concurrent request), `stale-if-error` (a stale response, because the database could not be read), `stale-if-busy` (a stale response, because the read was shed)";
    Counter "gene_registry_control_requests_total" ["route", "method", "status"]
        "requests on the control listener; each series is absent until its first request";
    Counter "gene_registry_loads_total" ["result"]
        "reads from the upstream for the caches, `ok` or `failed`";
    Gauge "gene_registry_misses" ["state"]
        "reads from the upstream for the caches: `reading`, or `queued` for a permit";
    Counter "gene_registry_shed_total" ["what"]
        "shed reads: `miss` and `deep_page` (of a page with an offset above 1,000; both: 503, or a stale response), `refresh` (in the background)";
    Counter "gene_registry_refreshes_total" []
        "background refreshes of stale entries";
    Counter "gene_registry_waits_for_other_replica_total" []
        "waits for the read of another replica";
    Counter "gene_registry_not_current_total" []
        "cached entries that were outdated by a known change";
    Counter "gene_registry_shared_undecodable_total" []
        "entries in Redis that could not be decoded";
    Counter "gene_registry_shared_too_large_total" []
        "entries larger than `cache.shared_max_entry_bytes`";
    Counter "gene_registry_shared_no_room_total" []
        "entries that were not written to Redis, because it was nearly full";
    Counter "gene_registry_shared_write_failures_total" []
        "writes to Redis that were refused or timed out";
    Gauge "gene_registry_local_cache_bytes" []
        "memory that the local cache uses, including keys, totals and overhead, bytes";
    Gauge "gene_registry_local_cache_max_bytes" []
        "`cache.local_max_bytes`, bytes";
    Gauge "gene_registry_local_cache_entries" []
        "entries in the local cache: responses, and counts of the genes that filters match";
    Counter "gene_registry_key_lookups_total" ["result"]
        "lookups of API keys in the database, `ok` or `failed`";
    Counter "gene_registry_unknown_keys_total" []
        "lookups that found no API key";
    Counter "gene_registry_key_lookups_refused_total" []
        "lookups of unknown API keys that were refused, because the client and all clients together were over budget, or because of a timeout";
    Gauge "gene_registry_key_records" ["known"]
        "cached API keys: with a record (`yes`), or known not to exist (`no`)";
    Counter "gene_registry_limit_decisions_total" ["result"]
        "requests with a valid key: `admitted`, `refused`, `refused_locally` (the window was known to be full), `unenforced` (over the limit, but admitted), `not_counted` (503)";
    Counter "gene_registry_limit_local_fallback_total" []
        "requests that were decided by the replica's own share of the limit, because Redis was unavailable";
    Histogram "gene_registry_limit_wait_seconds" []
        "time that a request waited to be counted, seconds";
    Histogram "gene_registry_limit_round_trip_seconds" ["outcome"]
        "round trips to Redis for counts (`answered`, `failed`), seconds";
    Histogram "gene_registry_limit_batch_requests" []
        "requests counted in one round trip";
    Histogram "gene_registry_limit_batch_commands" []
        "commands in one round trip, one for each key";
    Gauge "gene_registry_limit_policy" ["state"]
        "1 for the current enforcement of limits, else 0: `shared`, `local` (the replica's own share), `refusing` (503)";
    Gauge "gene_registry_ready" []
        "1 while the replica is ready, as in `/readyz`, else 0";
    Counter "gene_registry_connections_refused_total" ["listener"]
        "connections of the listener `public`, `ops` or `control` that were closed at once, because the peer already held at least as many connections as were free";
    Gauge "gene_registry_upstream_in_use" []
        "1 while the database is read, at the primary or a standby, 0 while it is unavailable";
    Gauge "gene_registry_primary_in_use" []
        "1 while the primary is read, 0 while it is unavailable; absent without `upstream.read_urls`";
    Gauge "gene_registry_standby_in_use" ["standby"]
        "1 while a standby is read, else 0; by its number in `upstream.read_urls`, from 1; absent without that";
    Gauge "gene_registry_standby_lag_seconds" ["standby"]
        "upper bound of a standby's lag, seconds; up to 2 while the standby does not lag; absent while unknown, and without `upstream.read_urls`";
    Counter "gene_registry_standby_reads_total" ["standby", "result"]
        "reads from a standby: `answered`, `behind` (it lacked a known change, so the primary was read), `failed` (the primary was read); absent without `upstream.read_urls`";
    Counter "gene_registry_history_switches_total" []
        "number of times that another history of the database began: it was restarted, a standby was promoted, or a backup restored";
    Gauge "gene_registry_redis_in_use" ["side"]
        "1 while commands of this kind (`read`, `write`) are sent to Redis, else 0; in a cluster, 1 only if this holds for every slot; absent without Redis";
    Gauge "gene_registry_redis_memory_ratio" []
        "memory that the fullest Redis server uses, as a ratio of its `maxmemory`, or of `redis.max_bytes` if that is 0 or not reported; absent while unknown, and without Redis";
    Counter "gene_registry_redis_round_trips_total" ["pool", "result"]
        "round trips to Redis, each with the commands of one or more requests, by connection pool (as in `gene_registry_pool_connections`) and `result`: `ok`, or `failed` if there was no reply in time; absent without Redis";
    Counter "gene_registry_breaker_openings_total" ["store"]
        "number of times that the circuit breaker of a store (`postgres`, `redis_read`, `redis_write`) opened, because the store was unavailable";
    Gauge "gene_registry_pool_connections" ["pool", "state"]
        "connections of a pool, `in_use` or `idle`: `postgres` (reads), `postgres_side` (change log and pings), `postgres_standbys` and `postgres_standbys_side` (all standbys together), `redis` (reads and leases), `redis_publications`, `redis_limits`; absent for a store that is not configured. The pools of `control.database_url` and `keys.usage_database_url` are not measured";
    Gauge "gene_registry_pool_max_connections" ["pool"]
        "maximum number of connections of a pool; below the configured one while the server accepts no more";
    Gauge "gene_registry_pool_waiting" ["pool"]
        "requests that wait for a connection of a pool; for `redis` and `redis_publications`, batches";
    Gauge "gene_registry_change_log_age_seconds" []
        "time since the last successful poll of the change log, seconds; without a change log: since the last successful poll of the database's position";
    Counter "gene_registry_change_log_polls_total" ["result"]
        "polls of the change log, `ok` or `failed`";
    Counter "gene_registry_change_log_changes_total" []
        "changes found in the change log, without those of the first poll";
    Gauge "gene_registry_broken_rows" []
        "genes left out of the latest unfiltered search because they violate the contract of the views";
    Gauge "gene_registry_domain_genes" ["domain"]
        "`gene_count` of a domain's arena; present for up to 100 domains that were requested and read from the database in the last five minutes";
    Gauge "gene_registry_domain_shannon_diversity" ["domain"]
        "`shannon_diversity` of the same domains";
    Gauge "gene_registry_domain_turnover_ratio" ["domain"]
        "`turnover_rate` of the same domains";
    Gauge "gene_registry_domain_mean_fitness" ["domain"]
        "`avg_fitness` of the same domains";
    Gauge "gene_registry_domain_evaluations" ["domain"]
        "`total_arena_evaluations` of the same domains";
    Gauge "gene_registry_domain_read_timestamp_seconds" ["domain"]
        "time at which these numbers were read, seconds since 1970";
    Gauge "gene_registry_tasks" []
        "running asynchronous tasks";
    Counter "gene_registry_task_panics_total" ["task"]
        "panics in background tasks of the process, by task; each was logged, and the task restarted";
    Gauge "gene_registry_certificate_expiry_timestamp_seconds" []
        "expiry of the public listener's certificate, seconds since 1970; absent without TLS";
    Counter "gene_registry_certificate_reloads_total" ["result"]
        "reloads of changed certificate files: `ok`, or `failed`, which keeps the previous certificate";
    Counter "gene_registry_log_lines_dropped_total" []
        "log lines that were dropped, because the reader of the log stalled and the queue was full, or because writing failed";
    Gauge "gene_registry_build_info" ["version"]
        "always 1; the label is the version of the program";
    Gauge "process_resident_memory_bytes" []
        "resident memory, bytes";
    Gauge "process_virtual_memory_bytes" []
        "virtual memory, bytes";
    Counter "process_cpu_seconds_total" []
        "CPU time used, seconds";
    Gauge "process_start_time_seconds" []
        "start of the process, seconds since 1970";
    Gauge "process_open_fds" []
        "open file descriptors";
    Gauge "process_max_fds" []
        "maximum number of open file descriptors";
    Gauge "process_threads" []
        "threads";
};

/// The metrics of the command `canary`.
pub const CANARY: &[MetricDescription] = catalog! {
    Gauge "gene_registry_canary_broken" ["check"]
        "1 if the last such check found a broken promise, otherwise 0: `responds`, `ages`, `change_log`, `clock`, `agreement`, `limit`, `revocation`; absent until the check was done, and after a round that could not begin";
    Counter "gene_registry_canary_rounds_total" []
        "completed rounds of checks";
    Counter "gene_registry_canary_requests_total" []
        "requests that the canary has sent to replicas";
    Gauge "gene_registry_canary_last_check_timestamp_seconds" ["check"]
        "when the check was last done, in seconds since 1970; of `responds` and `limit`, and of `revocation` if it is configured, at first the start, and of others absent until the check was done";
    Gauge "gene_registry_canary_interval_seconds" []
        "from the start of one round to the next (`--every`), seconds";
    Gauge "gene_registry_canary_revocation_seconds" []
        "time from the last revocation of a key to the last request with it that was accepted, seconds; absent until it was measured";
};

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../docs/metrics.md");

    #[test]
    fn the_documentation_matches_the_catalog() {
        let written: String = DOCUMENT.lines().filter(|line| line.starts_with('|')).fold(
            String::new(),
            |mut text, line| {
                text.push_str(line);
                text.push('\n');
                text
            },
        );
        let table = table(ALL) + &table(CANARY);
        assert!(written == table, "docs/metrics.md is outdated; replace its table with\n\n{table}");
    }

    #[test]
    fn names_follow_the_conventions() {
        let all = || ALL.iter().chain(CANARY);
        for MetricDescription { name, kind, .. } in all() {
            assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            for other in ["_ms", "_milliseconds", "_us", "_kb", "_percent", "_count", "_minutes"] {
                assert!(!base.ends_with(other), "{name}: base units only");
            }
            assert_eq!(all().filter(|other| other.name == *name).count(), 1, "{name}");
        }
    }
}
