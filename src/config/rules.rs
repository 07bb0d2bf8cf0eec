//! The ranges of values, and the rules between values.

use std::net::{IpAddr, SocketAddr};

use super::cache::AgesConfig;
use super::checks::Checks;
use super::error::ConfigError;
use super::root::Config;

/// A day, in seconds.
const DAY_S: u64 = 86_400;
const DAY_MS: u64 = DAY_S * 1000;

/// The longest time for which browsers may be told to use HTTPS only: ten years, in seconds.
const MAX_HSTS_S: u64 = 3_650 * DAY_S;

/// Bounds the number of metric labels: each standby has its own.
const MAX_STANDBYS: usize = 16;

/// Whether only one listener can have the address. One on `::` also receives what is sent to IPv4.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let covers = |a: IpAddr, b: IpAddr| a.is_unspecified() && (a.is_ipv6() || b.is_ipv4());
    let (ip_a, ip_b) = (a.ip(), b.ip());
    a.port() == b.port()
        && a.port() != 0
        && (ip_a == ip_b || covers(ip_a, ip_b) || covers(ip_b, ip_a))
}

impl Config {
    /// The errors of values that are well-formed.
    pub(super) fn check(&self) -> Vec<ConfigError> {
        let mut checks = Checks::default();
        self.ranges(&mut checks);
        self.addresses(&mut checks);
        self.tls_files(&mut checks);
        self.timeouts(&mut checks);
        self.ages(&mut checks);
        self.redis.check(&mut checks);
        self.telemetry.check(cfg!(feature = "otlp"), &mut checks);
        self.control.check(&mut checks);
        self.pages.check(&mut checks);
        checks.into_errors()
    }

    fn ranges(&self, checks: &mut Checks) {
        let (server, upstream) = (&self.server, &self.upstream);
        let problem = format!("must name {MAX_STANDBYS} standbys or fewer");
        let valid = upstream.read_urls.len() <= MAX_STANDBYS;
        checks.require(valid, &["upstream.read_urls"], &problem);
        for (key, value, range) in [
            ("server.max_connections", server.max_connections as u64, 1..=1_000_000),
            ("server.head_timeout_ms", server.head_timeout_ms, 1..=DAY_MS),
            ("server.idle_timeout_ms", server.idle_timeout_ms, 1..=DAY_MS),
            ("server.request_timeout_ms", server.request_timeout_ms, 1..=DAY_MS),
            ("server.response_timeout_ms", server.response_timeout_ms, 1..=DAY_MS),
            ("server.hsts_max_age_s", server.hsts_max_age_s, 0..=MAX_HSTS_S),
            ("server.drain_ms", server.drain_ms, 0..=DAY_MS),
            ("server.grace_ms", server.grace_ms, 0..=DAY_MS),
            ("server.tls.handshake_timeout_ms", server.tls.handshake_timeout_ms, 1..=DAY_MS),
            ("upstream.pool_size", upstream.pool_size as u64, 1..=10_000),
            ("upstream.wait_ms", upstream.wait_ms, 1..=u64::MAX),
            ("upstream.connect_ms", upstream.connect_ms, 1..=u64::MAX),
            ("upstream.query_ms", upstream.query_ms, 1..=u64::MAX),
            ("upstream.deadline_ms", upstream.deadline_ms, 0..=DAY_MS),
            ("upstream.max_lag_ms", upstream.max_lag_ms, 1..=DAY_MS),
            ("redis.timeout_ms", self.redis.timeout_ms, 1..=DAY_MS),
            ("redis.max_bytes", self.redis.max_bytes, 1..=u64::MAX),
            ("redis.pool_size", self.redis.pool_size.into(), 1..=10_000),
            ("rate_limit.replicas", self.rate_limit.replicas.into(), 1..=u64::MAX),
            ("shed.max_misses", self.shed.max_misses.unwrap_or(1) as u64, 1..=u64::MAX),
            ("shed.queue", self.shed.queue as u64, 0..=1_000_000),
            ("shed.wait_ms", self.shed.wait_ms, 0..=DAY_MS),
            ("control.max_rate_limit", self.control.max_rate_limit.into(), 1..=2_147_483_647),
            ("control.max_keys", self.control.max_keys.into(), 0..=1_000_000),
            ("keys.usage_every_s", self.keys.usage_every_s, 1..=DAY_S),
            // The change log covers one hour more than this.
            ("cache.search.if_error_s", self.cache.search.if_error_s, 0..=DAY_S),
            ("cache.phenotype.if_error_s", self.cache.phenotype.if_error_s, 0..=DAY_S),
            ("cache.insights.if_error_s", self.cache.insights.if_error_s, 0..=DAY_S),
            ("cache.not_found_s", self.cache.not_found_s, 0..=DAY_S),
        ] {
            let (min, max) = range.into_inner();
            checks.require(value >= min, &[key], &format!("must be {min} or more"));
            checks.require(value <= max, &[key], &format!("must be {max} or less"));
        }
    }

    fn addresses(&self, checks: &mut Checks) {
        const PUBLIC: &str = "server.bind";
        let (public, ops) = (self.server.bind, self.ops.bind);
        checks.require(
            !overlap(public, ops),
            &["ops.bind", PUBLIC],
            "must not overlap with server.bind",
        );
        checks.require(
            !self.control.bind.is_some_and(|bind| overlap(bind, public) || overlap(bind, ops)),
            &["control.bind", PUBLIC, "ops.bind"],
            "must not overlap with server.bind or ops.bind",
        );
        checks.require_public_url("server.public_url", self.server.public_url.as_deref());
        checks.require(
            self.server.cors.is_valid(),
            &["server.cors.origins"],
            "must have the form https://app.example, lowercase and without a path, or be * alone",
        );
    }

    fn tls_files(&self, checks: &mut Checks) {
        let [cert_key, key_key] = ["server.tls.cert_file", "server.tls.key_file"];
        let tls = &self.server.tls;
        let named = if tls.cert_file.is_some() { [key_key, cert_key] } else { [cert_key, key_key] };
        checks.require(
            tls.cert_file.is_some() == tls.key_file.is_some(),
            &named,
            "must be set too: TLS needs a certificate and its key",
        );
        for (key, path) in [
            (cert_key, &tls.cert_file),
            (key_key, &tls.key_file),
            ("upstream.tls_ca_file", &self.upstream.tls_ca_file),
            ("control.oidc.tls_ca_file", &self.control.oidc.tls_ca_file),
        ] {
            let valid = path.as_ref().is_none_or(|path| !path.as_os_str().is_empty());
            checks.require(valid, &[key], "must name a PEM file, or be absent: it is empty");
        }
    }

    fn timeouts(&self, checks: &mut Checks) {
        const DEADLINE: &str = "upstream.deadline_ms";
        let upstream = &self.upstream;
        checks.require(
            upstream.deadline_ms >= upstream.query_ms,
            &[DEADLINE, "upstream.query_ms"],
            "must not be shorter than upstream.query_ms",
        );
        checks.require(
            self.server.request_timeout_ms > upstream.deadline_ms,
            &["server.request_timeout_ms", DEADLINE],
            "must be longer than upstream.deadline_ms",
        );
        checks.require(
            self.shed.wait_ms <= upstream.deadline_ms,
            &["shed.wait_ms", DEADLINE],
            "must not be longer than upstream.deadline_ms, which bounds every read",
        );
        let (misses, pool_size) = (self.shed.max_misses, upstream.pool_size);
        checks.require(
            misses.is_none_or(|misses| misses < pool_size.max(2)),
            &["shed.max_misses", "upstream.pool_size"],
            "must be less than upstream.pool_size: the lookup of API keys needs connections too",
        );
    }

    fn ages(&self, checks: &mut Checks) {
        for (kind, ages) in [
            ("search", self.cache.search),
            ("phenotype", self.cache.phenotype),
            ("insights", self.cache.insights),
        ] {
            let AgesConfig { fresh_s, stale_s, if_error_s } = ages;
            let keys =
                ["if_error_s", "fresh_s", "stale_s"].map(|key| format!("cache.{kind}.{key}"));
            checks.require(
                if_error_s >= fresh_s.saturating_add(stale_s),
                &keys.each_ref().map(String::as_str),
                "must not be less than fresh_s plus stale_s",
            );
        }
    }
}
