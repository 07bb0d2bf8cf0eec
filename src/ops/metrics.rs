//! Records and renders the metrics; [`super::catalog`] documents each. Labels are route templates and
//! fixed words, never values from requests (except a bounded number of existing domains, see
//! [`super::domain_metrics`]), so the number of series is bounded.

use std::time::{Duration, Instant};

use metrics::{Counter, KeyName, Recorder, counter, gauge, with_local_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use super::cache_metrics::{CacheCounters, CacheEvent};
use super::catalog::{self, MetricKind};
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

/// Bucket bounds of times, in seconds. Cache hits take far less than a millisecond.
const SECONDS: [f64; 15] = [
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5,
];

/// Bucket bounds of batch sizes.
const SIZES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// Every histogram with its bucket bounds.
const BOUNDS: [(&str, &[f64]); 5] = [
    (request_metrics::REQUEST_SECONDS, &SECONDS),
    (limit_metrics::WAIT_SECONDS, &SECONDS),
    (limit_metrics::ROUND_TRIP_SECONDS, &SECONDS),
    (limit_metrics::BATCH_REQUESTS, &SIZES),
    (limit_metrics::BATCH_COMMANDS, &SIZES),
];

/// The metrics of one replica.
#[derive(Debug)]
pub struct Metrics {
    recorder: PrometheusRecorder,
    caches: CacheCounters,
    domains: DomainMetrics,
    certificate_reloads: [Counter; 2],
}

impl Default for Metrics {
    fn default() -> Self {
        let builder = BOUNDS.iter().fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
            // Fails only for an empty list of bounds.
            builder
                .set_buckets_for_metric(Matcher::Full((*name).to_owned()), bounds)
                .unwrap_or_else(|_| PrometheusBuilder::new())
        });
        let recorder = builder.build_recorder();
        describe(&recorder);
        let (caches, certificate_reloads) = with_local_recorder(&recorder, || {
            gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            let reloads = ["failed", "ok"];
            let reloads = reloads.map(|result| counter!(CERTIFICATE_RELOADS, "result" => result));
            (CacheCounters::default(), reloads)
        });
        Self { recorder, caches, domains: DomainMetrics::default(), certificate_reloads }
    }
}

fn describe(recorder: &impl Recorder) {
    for metric in catalog::ALL {
        let (name, help) = (KeyName::from_const_str(metric.name), metric.help.into());
        match metric.kind {
            MetricKind::Counter => recorder.describe_counter(name, None, help),
            MetricKind::Gauge => recorder.describe_gauge(name, None, help),
            MetricKind::Histogram => recorder.describe_histogram(name, None, help),
        }
    }
}

impl Metrics {
    /// The counters of a listener with these route templates, the busiest first. The first ones are
    /// the `operations`.
    pub fn requests(&self, routes: Vec<String>, operations: usize) -> RequestMetrics {
        with_local_recorder(&self.recorder, || RequestMetrics::new(routes, operations))
    }

    /// Counts a request that took `took`.
    pub fn request(&self, requests: &RequestMetrics, labels: RequestLabels<'_>, took: Duration) {
        requests.record(&self.recorder, labels, took);
    }

    /// Counts a request on the control listener. `route`: its template; `method`: see
    /// [`method_label`](super::method_label).
    pub fn control_request(&self, route: &str, method: &'static str, status: u16) {
        self.control_requests(route, method, status).increment(1);
    }

    /// Begins the series of a route of the control listener that alerts need.
    pub fn begin_control_route(&self, route: &str, method: &'static str) {
        for status in [429, 500, 502, 503] {
            self.control_requests(route, method, status).absolute(0);
        }
    }

    fn control_requests(&self, route: &str, method: &'static str, status: u16) -> Counter {
        let (route, status) = (route.to_owned(), status.to_string());
        with_local_recorder(
            &self.recorder,
            || counter!(CONTROL_REQUESTS, "route" => route, "method" => method, "status" => status),
        )
    }

    /// Counts an event of the read path.
    pub fn count(&self, event: CacheEvent) {
        self.caches.count(event);
    }

    /// Records the arena response of a domain, read `age` ago, at `read_at_seconds` since 1970.
    pub fn domain(&self, domain: &str, body: &[u8], age: Duration, read_at_seconds: f64) {
        self.domains.observe(domain, body, age, read_at_seconds, Instant::now());
    }

    /// Sets the expiry of the certificate in use, in seconds since 1970.
    pub fn certificate_expires(&self, at: u64) {
        with_local_recorder(&self.recorder, || gauge!(CERTIFICATE_EXPIRY).set(at as f64));
    }

    /// Counts a reload of the certificate.
    pub fn certificate_reloaded(&self, ok: bool) {
        self.certificate_reloads[usize::from(ok)].increment(1);
    }

    /// The metrics of the limiter.
    pub fn limits(&self) -> LimitMetrics {
        with_local_recorder(&self.recorder, LimitMetrics::default)
    }

    /// The metrics of the read limiter.
    pub fn shed(&self) -> ShedMetrics {
        with_local_recorder(&self.recorder, ShedMetrics::default)
    }

    /// All metrics in the Prometheus text format, with those that `collect` adds.
    pub fn render(&self, collect: impl FnOnce(&mut Exposition)) -> String {
        let mut out = Exposition::default();
        collect(&mut out);
        self.domains.write(&mut out, Instant::now());
        out.sample(LOG_LINES_DROPPED, &[], telemetry::lines_dropped() as f64);
        process::write(&mut out);
        out.render_after(self.recorder.handle().render())
    }

    /// Must be called every few seconds: bounds the memory if `/metrics` is not scraped.
    pub fn run_upkeep(&self) {
        self.recorder.handle().run_upkeep();
    }
}
