//! What values must be, one by one and beside each other.

use super::error::ConfigError;
use super::{AgesConfig, Config};

/// A day, in seconds.
const DAY_S: u64 = 86_400;
const DAY_MS: u64 = DAY_S * 1000;

/// Standbys are told apart in metrics, by as many labels.
const MOST_STANDBYS: usize = 16;

/// What was found wrong.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<ConfigError>);

impl Rules {
    /// Notes that the first of the keys is not as it must be beside the others, unless it is.
    pub(super) fn require(&mut self, holds: bool, keys: &[&str], what: &str) {
        if !holds {
            self.0.push(ConfigError::new(keys, what));
        }
    }

    pub(super) fn found(self) -> Vec<ConfigError> {
        self.0
    }
}

impl Config {
    /// What can't be as it is.
    pub(super) fn contradictions(&self) -> Vec<ConfigError> {
        let mut rules = Rules::default();
        self.ranges(&mut rules);
        self.standbys(&mut rules);
        self.addresses(&mut rules);
        self.tls_files(&mut rules);
        self.patience(&mut rules);
        self.ages(&mut rules);
        self.rest(&mut rules);
        self.control.rules(&mut rules);
        rules.found()
    }

    fn ranges(&self, rules: &mut Rules) {
        let (server, upstream) = (&self.server, &self.upstream);
        for (key, value, range) in [
            ("server.max_connections", server.max_connections as u64, 1..=1_000_000),
            ("server.head_timeout_ms", server.head_timeout_ms, 1..=DAY_MS),
            ("server.idle_timeout_ms", server.idle_timeout_ms, 1..=DAY_MS),
            ("server.request_timeout_ms", server.request_timeout_ms, 1..=DAY_MS),
            ("server.response_timeout_ms", server.response_timeout_ms, 1..=DAY_MS),
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
            ("redis.pool_size", self.redis.pool_size.into(), 1..=10_000),
            ("rate_limit.replicas", self.rate_limit.replicas.into(), 1..=u64::MAX),
            ("shed.max_misses", self.shed.max_misses.unwrap_or(1) as u64, 1..=u64::MAX),
            ("shed.queue", self.shed.queue as u64, 0..=1_000_000),
            ("shed.wait_ms", self.shed.wait_ms, 0..=DAY_MS),
            ("keys.usage_every_s", self.keys.usage_every_s, 1..=DAY_S),
            // The change log is loaded for an hour more than that.
            ("cache.search.if_error_s", self.cache.search.if_error_s, 0..=DAY_S),
            ("cache.phenotype.if_error_s", self.cache.phenotype.if_error_s, 0..=DAY_S),
            ("cache.insights.if_error_s", self.cache.insights.if_error_s, 0..=DAY_S),
            ("cache.not_found_s", self.cache.not_found_s, 0..=DAY_S),
        ] {
            let (least, most) = range.into_inner();
            rules.require(value >= least, &[key], &format!("must be {least} or more"));
            rules.require(value <= most, &[key], &format!("must be {most} or less"));
        }
    }

    fn standbys(&self, rules: &mut Rules) {
        let holds = self.upstream.read_urls.len() <= MOST_STANDBYS;
        let what = format!("must name {MOST_STANDBYS} standbys or fewer");
        rules.require(holds, &["upstream.read_urls"], &what);
    }

    fn addresses(&self, rules: &mut Rules) {
        const PUBLIC: &str = "server.bind";
        let (public, ops) = (self.server.bind, self.ops.bind);
        let holds = public != ops || ops.port() == 0;
        rules.require(holds, &["ops.bind", PUBLIC], "must not be the same as server.bind");
        let control = self.control.bind.filter(|bind| bind.port() != 0);
        rules.require(
            control.is_none_or(|bind| bind != public && bind != ops),
            &["control.bind", PUBLIC, "ops.bind"],
            "must not be the same as server.bind or ops.bind",
        );
        rules.require(
            self.server.public_url.as_deref().is_none_or(is_public_url),
            &["server.public_url"],
            PUBLIC_URL,
        );
        rules.require(
            self.server.cors.is_usable(),
            &["server.cors.origins"],
            "must each be like https://app.example, lowercase and without a path, or * alone",
        );
    }

    fn tls_files(&self, rules: &mut Rules) {
        let [cert_key, key_key] = ["server.tls.cert_file", "server.tls.key_file"];
        let tls = &self.server.tls;
        let named = if tls.cert_file.is_some() { [key_key, cert_key] } else { [cert_key, key_key] };
        rules.require(
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
            let holds = path.as_ref().is_none_or(|path| !path.as_os_str().is_empty());
            rules.require(holds, &[key], "must name a PEM file, or be left out: it is empty");
        }
    }

    /// How long is waited for what.
    fn patience(&self, rules: &mut Rules) {
        const DEADLINE: &str = "upstream.deadline_ms";
        let upstream = &self.upstream;
        rules.require(
            upstream.deadline_ms >= upstream.query_ms,
            &[DEADLINE, "upstream.query_ms"],
            "must not be shorter than upstream.query_ms",
        );
        rules.require(
            self.server.request_timeout_ms > upstream.deadline_ms,
            &["server.request_timeout_ms", DEADLINE],
            "must be longer than upstream.deadline_ms",
        );
        rules.require(
            self.shed.wait_ms <= upstream.deadline_ms,
            &["shed.wait_ms", DEADLINE],
            "must not be longer than upstream.deadline_ms: nobody waits longer for a read",
        );
        let (misses, pool_size) = (self.shed.max_misses, upstream.pool_size);
        rules.require(
            misses.is_none_or(|misses| misses < pool_size.max(2)),
            &["shed.max_misses", "upstream.pool_size"],
            "must be less than upstream.pool_size: look-ups of keys need connections too",
        );
    }

    fn ages(&self, rules: &mut Rules) {
        for (kind, ages) in [
            ("search", self.cache.search),
            ("phenotype", self.cache.phenotype),
            ("insights", self.cache.insights),
        ] {
            let AgesConfig { fresh_s, stale_s, if_error_s } = ages;
            let keys =
                ["if_error_s", "fresh_s", "stale_s"].map(|key| format!("cache.{kind}.{key}"));
            rules.require(
                if_error_s >= fresh_s.saturating_add(stale_s),
                &keys.each_ref().map(String::as_str),
                "must not be shorter than fresh_s and stale_s together",
            );
        }
    }

    fn rest(&self, rules: &mut Rules) {
        rules.require(!self.redis.prefix.is_empty(), &["redis.prefix"], "must not be empty");
        for (key, what) in self.telemetry.problems(cfg!(feature = "otlp")) {
            rules.require(false, &[key], what);
        }
        for (key, what) in self.redis.contradictions() {
            rules.require(false, &[key], &what);
        }
    }
}

pub(super) const PUBLIC_URL: &str =
    "must begin with http:// or https://, without a query or fragment";

/// Whether clients can be told to come there.
pub(super) fn is_public_url(url: &str) -> bool {
    let is_web = url.starts_with("http://") || url.starts_with("https://");
    is_web && !url.contains(['?', '#'])
}
