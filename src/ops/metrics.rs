//! Every metric of the service. Labels are route templates and fixed words, never what a caller
//! sent, so the number of series is fixed.
//!
//! | name | kind | labels | meaning |
//! |---|---|---|---|
//! | `gene_registry_requests_total` | counter | `route`, `method`, `status` | requests answered on the public listener |
//! | `gene_registry_request_seconds` | histogram | `route` | time from a request's head to its answer, seconds |
//! | `gene_registry_answers_total` | counter | `source` | answers by where they were found |
//! | `gene_registry_loads_total` | counter | `result` | reads from the upstream for the caches, `ok` or `failed` |
//! | `gene_registry_misses` | gauge | `state` | reads from the upstream for the caches: `reading`, or `queued` for their turn |
//! | `gene_registry_shed_total` | counter | `what` | reads for which there was no room: `miss` and `deep_walk` (503, or an older answer), `refresh` (nobody waited) |
//! | `gene_registry_refreshes_total` | counter | | stale answers read again behind the one sent |
//! | `gene_registry_waits_for_other_replica_total` | counter | | times another replica's read was waited for |
//! | `gene_registry_not_current_total` | counter | | answers at hand that a known change concerned |
//! | `gene_registry_shared_undecodable_total` | counter | | answers in Redis that could not be decoded |
//! | `gene_registry_shared_too_large_total` | counter | | answers over `cache.shared_max_entry_bytes` |
//! | `gene_registry_shared_write_failures_total` | counter | | writes that Redis refused or did not answer |
//! | `gene_registry_key_lookups_total` | counter | `result` | look-ups of API keys, `ok` or `failed` |
//! | `gene_registry_key_lookups_refused_total` | counter | | keys never seen that were not looked up, for there were too many |
//! | `gene_registry_broken_rows` | gauge | | genes left out because they break the contract, as of the latest unfiltered search |
//! | `gene_registry_upstream_in_use` | gauge | | 1 while the database is read, 0 while it is known to be away |
//! | `gene_registry_redis_in_use` | gauge | `side` | 1 while commands of this side (`read`, `write`) are sent to Redis, else 0 |
//! | `gene_registry_limit_decisions_total` | counter | `result` | requests with a valid key: `admitted`, `refused`, `refused_locally` (the window was known to be full), `unenforced` (over the limit, let through), `not_counted` (503) |
//! | `gene_registry_limit_decided_alone_total` | counter | | of these, decided by this replica's own share because Redis gave no count |
//! | `gene_registry_limit_wait_seconds` | histogram | | time a request waited for its count, seconds |
//! | `gene_registry_limit_round_trip_seconds` | histogram | `outcome` | round trips to Redis for counts (`answered`, `failed`), seconds |
//! | `gene_registry_limit_batch_requests` | histogram | | requests counted in one round trip |
//! | `gene_registry_limit_batch_commands` | histogram | | commands in one round trip: one a key |
//! | `gene_registry_limit_policy` | gauge | `state` | 1 for how limits are held now: `shared`, `local` (by this replica's own share), `refusing` (not counted, 503); else 0 |
//! | `gene_registry_certificate_expiry_timestamp_seconds` | gauge | | when the public listener's certificate ends, seconds since 1970; absent without TLS |
//! | `gene_registry_certificate_reloads_total` | counter | `result` | times its files had changed: `ok`, or `failed`, with the one before still in use |
//! | `gene_registry_control_requests_total` | counter | `route`, `method`, `status` | requests answered on the control listener |
//! | `gene_registry_build_info` | gauge | `version` | 1 |

use std::time::Duration;

use super::cache_metrics::CacheEvent;
use metrics::{Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use super::limit_metrics::{self, LimitMetrics};
use super::shed_metrics::ShedMetrics;

const REQUESTS: &str = "gene_registry_requests_total";
const REQUEST_SECONDS: &str = "gene_registry_request_seconds";
const CONTROL_REQUESTS: &str = "gene_registry_control_requests_total";
const ANSWERS: &str = "gene_registry_answers_total";
const BROKEN_ROWS: &str = "gene_registry_broken_rows";
const UPSTREAM_IN_USE: &str = "gene_registry_upstream_in_use";
const REDIS_IN_USE: &str = "gene_registry_redis_in_use";
const CERTIFICATE_EXPIRY: &str = "gene_registry_certificate_expiry_timestamp_seconds";
const CERTIFICATE_RELOADS: &str = "gene_registry_certificate_reloads_total";
const BUILD_INFO: &str = "gene_registry_build_info";

/// Bounds of the histograms, in seconds: hits are far below a millisecond.
const SECONDS: [f64; 14] = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5,
];

/// Bounds of the histograms of batches.
const SIZES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

pub(super) const METADATA: Metadata<'static> = Metadata::new("gene_registry", Level::INFO, None);

/// Every histogram with its bounds.
const BOUNDS: [(&str, &[f64]); 5] = [
    (REQUEST_SECONDS, &SECONDS),
    (limit_metrics::WAIT_SECONDS, &SECONDS),
    (limit_metrics::ROUND_TRIP_SECONDS, &SECONDS),
    (limit_metrics::BATCH_REQUESTS, &SIZES),
    (limit_metrics::BATCH_COMMANDS, &SIZES),
];

/// The metrics of one replica.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

/// What a request is counted under: fixed words only.
#[derive(Debug, Clone, Copy)]
pub struct RequestLabels<'a> {
    /// The route's template.
    pub route: &'a str,
    /// The method, or `other`.
    pub method: &'static str,
    /// The status.
    pub status: u16,
    /// Where an answer was found.
    pub source: Option<&'static str>,
}

/// What a request on the control listener is counted under: fixed words only.
#[derive(Debug, Clone, Copy)]
pub struct ControlLabels<'a> {
    /// The route.
    pub route: &'a str,
    /// The method, or `other`.
    pub method: &'static str,
    /// The status.
    pub status: u16,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let builder = BOUNDS.iter().fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
            // Refused only for an empty list of bounds.
            builder
                .set_buckets_for_metric(Matcher::Full((*name).to_owned()), bounds)
                .unwrap_or_else(|_| PrometheusBuilder::new())
        });
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        let metrics = Self { recorder, handle };
        metrics.gauge(BUILD_INFO, "version", env!("CARGO_PKG_VERSION")).set(1.0);
        metrics
    }
}

impl Metrics {
    /// Counts a request that took `took`.
    pub fn request(&self, labels: RequestLabels<'_>, took: Duration) {
        let route = Label::new("route", labels.route.to_owned());
        let status = Label::new("status", labels.status.to_string());
        let of_request = vec![route.clone(), Label::new("method", labels.method), status];
        self.recorder
            .register_counter(&Key::from_parts(REQUESTS, of_request), &METADATA)
            .increment(1);
        let key = Key::from_parts(REQUEST_SECONDS, vec![route]);
        self.recorder.register_histogram(&key, &METADATA).record(took);
        if let Some(source) = labels.source {
            let key = Key::from_parts(ANSWERS, vec![Label::new("source", source)]);
            self.recorder.register_counter(&key, &METADATA).increment(1);
        }
    }

    /// Counts a request on the control listener.
    pub fn control_request(&self, labels: ControlLabels<'_>) {
        let labels = vec![
            Label::new("route", labels.route.to_owned()),
            Label::new("method", labels.method),
            Label::new("status", labels.status.to_string()),
        ];
        let key = Key::from_parts(CONTROL_REQUESTS, labels);
        self.recorder.register_counter(&key, &METADATA).increment(1);
    }

    /// Counts something that happened in the read path.
    pub fn count(&self, event: CacheEvent) {
        let (name, label) = event.series();
        let labels =
            label.map(|(name, value)| Label::new(name, value)).into_iter().collect::<Vec<_>>();
        self.recorder.register_counter(&Key::from_parts(name, labels), &METADATA).increment(1);
    }

    /// Rows that are left out because they break the contract.
    pub fn broken_rows(&self, rows: i64) {
        let gauge = self.recorder.register_gauge(&Key::from_static_name(BROKEN_ROWS), &METADATA);
        gauge.set(rows as f64);
    }

    /// Whether the database is in use.
    pub fn upstream_in_use(&self, in_use: bool) {
        let gauge =
            self.recorder.register_gauge(&Key::from_static_name(UPSTREAM_IN_USE), &METADATA);
        gauge.set(f64::from(u8::from(in_use)));
    }

    /// Whether Redis is in use for commands of a side.
    pub fn redis_in_use(&self, side: &'static str, in_use: bool) {
        self.gauge(REDIS_IN_USE, "side", side).set(f64::from(u8::from(in_use)));
    }

    /// When the certificate in use ends, in seconds since 1970.
    pub fn certificate_expires(&self, at: u64) {
        let key = Key::from_static_name(CERTIFICATE_EXPIRY);
        self.recorder.register_gauge(&key, &METADATA).set(at as f64);
    }

    /// Counts that the certificate's files had changed.
    pub fn certificate_reloaded(&self, ok: bool) {
        let result = Label::new("result", if ok { "ok" } else { "failed" });
        let key = Key::from_parts(CERTIFICATE_RELOADS, vec![result]);
        self.recorder.register_counter(&key, &METADATA).increment(1);
    }

    /// What the limiter counts and measures.
    pub fn limits(&self) -> LimitMetrics {
        LimitMetrics::new(&self.recorder)
    }

    /// What is counted about reads of the upstream.
    pub fn shed(&self) -> ShedMetrics {
        ShedMetrics::new(&self.recorder)
    }

    /// Everything in the Prometheus text format.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// To be called every few seconds: keeps memory flat where nobody reads the metrics.
    pub fn tend(&self) {
        self.handle.run_upkeep();
    }

    fn gauge(
        &self,
        name: &'static str,
        label: &'static str,
        value: &'static str,
    ) -> metrics::Gauge {
        let key = Key::from_parts(name, vec![Label::new(label, value)]);
        self.recorder.register_gauge(&key, &METADATA)
    }
}
