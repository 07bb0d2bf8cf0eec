//! What is counted and measured. [`super::series`] lists every metric. Labels are route templates
//! and fixed words, never what a caller sent (but for a few domains that exist, see
//! [`super::domain_metrics`]), so the number of series is bounded.

use std::time::{Duration, Instant};

use metrics::{Counter, Key, KeyName, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use super::cache_metrics::{CacheCounters, CacheEvent};
use super::catalog::{self, Kind};
use super::domain_metrics::DomainMetrics;
use super::exposition::Exposition;
use super::limit_metrics::{self, LimitMetrics};
use super::process;
use super::request_metrics::{self, RequestLabels, RequestMetrics};
use super::shed_metrics::ShedMetrics;
use super::telemetry;

const CONTROL_REQUESTS: &str = "gene_registry_control_requests_total";
const CERTIFICATE_EXPIRY: &str = "gene_registry_certificate_expiry_timestamp_seconds";
const CERTIFICATE_RELOADS: &str = "gene_registry_certificate_reloads_total";
const BUILD_INFO: &str = "gene_registry_build_info";
const LOG_LINES_DROPPED: &str = "gene_registry_log_lines_dropped_total";

/// Bounds of the histograms, in seconds: hits are far below a millisecond.
const SECONDS: [f64; 15] = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5,
];

/// Bounds of the histograms of batches.
const SIZES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

pub(super) const METADATA: Metadata<'static> = Metadata::new("gene_registry", Level::INFO, None);

/// Every histogram with its bounds.
const BOUNDS: [(&str, &[f64]); 5] = [
    (request_metrics::REQUEST_SECONDS, &SECONDS),
    (limit_metrics::WAIT_SECONDS, &SECONDS),
    (limit_metrics::ROUND_TRIP_SECONDS, &SECONDS),
    (limit_metrics::BATCH_REQUESTS, &SIZES),
    (limit_metrics::BATCH_COMMANDS, &SIZES),
];

/// The metrics of one replica.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    caches: CacheCounters,
    domains: DomainMetrics,
    certificate_reloads: [Counter; 2],
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
        describe(&recorder);
        let version = Label::new("version", env!("CARGO_PKG_VERSION"));
        let build = Key::from_parts(BUILD_INFO, vec![version]);
        recorder.register_gauge(&build, &METADATA).set(1.0);
        let certificate_reloads = ["failed", "ok"].map(|result| {
            let key = Key::from_parts(CERTIFICATE_RELOADS, vec![Label::new("result", result)]);
            recorder.register_counter(&key, &METADATA)
        });
        let (handle, caches) = (recorder.handle(), CacheCounters::new(&recorder));
        let domains = DomainMetrics::default();
        Self { recorder, handle, caches, domains, certificate_reloads }
    }
}

fn describe(recorder: &impl Recorder) {
    for series in catalog::ALL {
        let (name, help) = (KeyName::from_const_str(series.name), series.help.into());
        match series.kind {
            Kind::Counter => recorder.describe_counter(name, None, help),
            Kind::Gauge => recorder.describe_gauge(name, None, help),
            Kind::Histogram => recorder.describe_histogram(name, None, help),
        }
    }
}

impl Metrics {
    /// What counts the requests of a listener with these route templates, the busiest first.
    pub fn requests(&self, routes: Vec<String>) -> RequestMetrics {
        RequestMetrics::new(&self.recorder, routes)
    }

    /// Counts a request that took `took`.
    pub fn request(&self, requests: &RequestMetrics, labels: RequestLabels<'_>, took: Duration) {
        requests.record(&self.recorder, labels, took);
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
        self.caches.count(event);
    }

    /// Takes in the arena answer of a domain, read `age` ago, at `read_at_seconds` since 1970.
    pub fn domain(&self, domain: &str, answer: &[u8], age: Duration, read_at_seconds: f64) {
        self.domains.observe(domain, answer, age, read_at_seconds, Instant::now());
    }

    /// When the certificate in use ends, in seconds since 1970.
    pub fn certificate_expires(&self, at: u64) {
        let key = Key::from_static_name(CERTIFICATE_EXPIRY);
        self.recorder.register_gauge(&key, &METADATA).set(at as f64);
    }

    /// Counts that the certificate's files had changed.
    pub fn certificate_reloaded(&self, ok: bool) {
        self.certificate_reloads[usize::from(ok)].increment(1);
    }

    /// What the limiter counts and measures.
    pub fn limits(&self) -> LimitMetrics {
        LimitMetrics::new(&self.recorder)
    }

    /// What is counted about reads of the upstream.
    pub fn shed(&self) -> ShedMetrics {
        ShedMetrics::new(&self.recorder)
    }

    /// Everything in the Prometheus text format, with what `look` adds.
    pub fn render(&self, look: impl FnOnce(&mut Exposition)) -> String {
        let mut out = Exposition::after(self.handle.render());
        look(&mut out);
        self.domains.write(&mut out, Instant::now());
        out.sample(LOG_LINES_DROPPED, &[], telemetry::lines_dropped() as f64);
        process::write(&mut out);
        out.into_text()
    }

    /// To be called every few seconds: keeps memory flat where nobody reads the metrics.
    pub fn run_upkeep(&self) {
        self.handle.run_upkeep();
    }
}
