//! Configuration: one struct a concern, every key documented in `config/default.toml`.

mod cache;
mod control;
mod cors;
mod load;
mod network;
mod redis;
mod server;
mod shed;
mod small;
mod tls;
mod upstream;

use secrecy::ExposeSecret;
use serde::Deserialize;

pub use cache::{AgesConfig, CacheConfig};
pub use control::{ControlConfig, OidcConfig, TokenConfig};
pub(crate) use control::{is_handle, is_trustworthy};
pub use cors::CorsConfig;
pub use load::{Effective, InvalidConfig, Loaded};
pub use network::{InvalidNetwork, Network};
pub use redis::{RateLimitConfig, RedisConfig};
pub use server::{OpsConfig, ServerConfig};
pub use shed::ShedConfig;
pub use small::{KeysConfig, LogConfig, LogFormat, RegistryConfig, TelemetryConfig};
pub use tls::TlsConfig;
pub use upstream::UpstreamConfig;

/// A whole configuration. Every key has a default but the URLs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each section's struct says what it is")]
pub struct Config {
    pub server: ServerConfig,
    pub ops: OpsConfig,
    pub control: ControlConfig,
    pub upstream: UpstreamConfig,
    pub shed: ShedConfig,
    pub redis: RedisConfig,
    pub cache: CacheConfig,
    pub rate_limit: RateLimitConfig,
    pub keys: KeysConfig,
    pub registry: RegistryConfig,
    pub log: LogConfig,
    pub telemetry: TelemetryConfig,
}

/// Standbys, which are told apart in metrics.
const MOST_STANDBYS: u64 = 16;

/// A day, in seconds.
const DAY_S: u64 = 86_400;

impl Config {
    /// What can't be as it is, a line each, naming the key.
    fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut must = |holds: bool, key: &str, what: &str| {
            if !holds {
                found.push(format!("{key}: {what}"));
            }
        };
        for (key, value) in [
            ("server.max_connections", self.server.max_connections as u64),
            ("server.head_timeout_ms", self.server.head_timeout_ms),
            ("server.idle_timeout_ms", self.server.idle_timeout_ms),
            ("server.request_timeout_ms", self.server.request_timeout_ms),
            ("server.tls.handshake_timeout_ms", self.server.tls.handshake_timeout_ms),
            ("upstream.pool_size", self.upstream.pool_size as u64),
            ("upstream.wait_ms", self.upstream.wait_ms),
            ("upstream.connect_ms", self.upstream.connect_ms),
            ("upstream.query_ms", self.upstream.query_ms),
            ("upstream.max_lag_ms", self.upstream.max_lag_ms),
            ("redis.timeout_ms", self.redis.timeout_ms),
            ("redis.pool_size", self.redis.pool_size.into()),
            ("rate_limit.replicas", self.rate_limit.replicas.into()),
            ("shed.max_misses", self.shed.max_misses.unwrap_or(1) as u64),
        ] {
            must(value > 0, key, "must be 1 or more");
        }
        for (key, value, most) in [
            ("server.max_connections", self.server.max_connections as u64, 1_000_000),
            ("upstream.pool_size", self.upstream.pool_size as u64, 10_000),
            ("redis.pool_size", self.redis.pool_size.into(), 10_000),
            // The change log is loaded for an hour more than that.
            ("cache.search.if_error_s", self.cache.search.if_error_s, DAY_S),
            ("cache.phenotype.if_error_s", self.cache.phenotype.if_error_s, DAY_S),
            ("cache.insights.if_error_s", self.cache.insights.if_error_s, DAY_S),
            ("cache.not_found_s", self.cache.not_found_s, DAY_S),
            ("server.head_timeout_ms", self.server.head_timeout_ms, DAY_S * 1000),
            ("server.idle_timeout_ms", self.server.idle_timeout_ms, DAY_S * 1000),
            ("server.tls.handshake_timeout_ms", self.server.tls.handshake_timeout_ms, DAY_S * 1000),
            ("server.request_timeout_ms", self.server.request_timeout_ms, DAY_S * 1000),
            ("server.drain_ms", self.server.drain_ms, DAY_S * 1000),
            ("server.grace_ms", self.server.grace_ms, DAY_S * 1000),
            ("upstream.deadline_ms", self.upstream.deadline_ms, DAY_S * 1000),
            ("upstream.max_lag_ms", self.upstream.max_lag_ms, DAY_S * 1000),
            ("upstream.read_urls", self.upstream.read_urls.len() as u64, MOST_STANDBYS),
            ("redis.timeout_ms", self.redis.timeout_ms, DAY_S * 1000),
            ("shed.queue", self.shed.queue as u64, 1_000_000),
            ("shed.wait_ms", self.shed.wait_ms, DAY_S * 1000),
        ] {
            must(value <= most, key, &format!("must be {most} or less"));
        }
        must(
            self.server.cors.is_usable(),
            "server.cors.origins",
            "must each be like https://app.example, lowercase and without a path, or * alone",
        );
        let tls = &self.server.tls;
        must(
            tls.cert_file.is_some() == tls.key_file.is_some(),
            if tls.cert_file.is_some() { "server.tls.key_file" } else { "server.tls.cert_file" },
            "must be set too: TLS needs a certificate and its key",
        );
        let (public, ops) = (self.server.bind, self.ops.bind);
        must(public != ops || ops.port() == 0, "ops.bind", "must not be the same as server.bind");
        must(
            self.upstream.deadline_ms >= self.upstream.query_ms,
            "upstream.deadline_ms",
            "must not be shorter than upstream.query_ms",
        );
        let (misses, pool_size) = (self.shed.max_misses, self.upstream.pool_size);
        must(
            misses.is_none_or(|misses| misses < pool_size.max(2)),
            "shed.max_misses",
            "must be less than upstream.pool_size: look-ups of keys need connections too",
        );
        must(
            self.server.request_timeout_ms > self.upstream.deadline_ms,
            "server.request_timeout_ms",
            "must be longer than upstream.deadline_ms",
        );
        let taken = self.control.bind.filter(|bind| bind.port() != 0);
        must(
            taken.is_none_or(|bind| bind != public && bind != ops),
            "control.bind",
            "must not be the same as server.bind or ops.bind",
        );
        must(
            (1..=DAY_S).contains(&self.keys.usage_every_s),
            "keys.usage_every_s",
            &format!("must be 1 to {DAY_S}"),
        );
        must(!self.redis.prefix.is_empty(), "redis.prefix", "must not be empty");
        for (kind, ages) in [
            ("search", self.cache.search),
            ("phenotype", self.cache.phenotype),
            ("insights", self.cache.insights),
        ] {
            must(
                ages.if_error_s >= ages.fresh_s.saturating_add(ages.stale_s),
                &format!("cache.{kind}.if_error_s"),
                "must not be shorter than fresh_s and stale_s together",
            );
        }
        for problem in self.telemetry.problems(cfg!(feature = "otlp")) {
            must(false, problem.0, problem.1);
        }
        let url = self.server.public_url.as_deref();
        must(
            url.is_none_or(|url| {
                let is_web = url.starts_with("http://") || url.starts_with("https://");
                is_web && !url.contains(['?', '#'])
            }),
            "server.public_url",
            "must begin with http:// or https://, without a query or fragment",
        );
        found.extend(self.control.contradictions());
        found
    }

    /// A URL that is set to nothing is not set: that is how compose files unset things.
    fn without_empty_urls(mut self) -> Self {
        for url in [&mut self.upstream.url, &mut self.redis.url, &mut self.control.database_url] {
            if url.as_ref().is_some_and(|url| url.expose_secret().is_empty()) {
                *url = None;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(text: &str) -> Result<Loaded, String> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        Loaded::read(Some(file.path())).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_a_whole_configuration() {
        let loaded = read("").expect("the defaults");
        assert_eq!(loaded.config.server.bind.port(), 8080);
        assert!(loaded.config.redis.url.is_none());
        let values = loaded.effective();
        let bind = values.iter().find(|value| value.key == "server.bind").expect("server.bind");
        assert_eq!(bind.value, "\"0.0.0.0:8080\"");
        assert_eq!(bind.source, "default");
    }

    #[test]
    fn a_wrong_file_is_refused_with_the_key_named() {
        for (text, expected) in [
            ("[server]\nbnid = \"x\"", "server.bnid"),
            ("[sever]\nbind = \"127.0.0.1:1\"", "sever"),
            ("[server]\nbind = \"nowhere\"", "server.bind"),
            ("[redis]\ntimeout_ms = \"soon\"", "redis.timeout_ms"),
            ("[redis]\ntimeout_ms = 0", "redis.timeout_ms: must be 1 or more"),
            ("[rate_limit]\nwithout_redis = \"hope\"", "rate_limit.without_redis"),
            ("[cache.search]\nif_error_s = 10", "cache.search.if_error_s"),
            ("[upstream]\ndeadline_ms = 10", "upstream.deadline_ms"),
            ("[server]\npublic_url = \"api.example\"", "server.public_url"),
            ("[server.tls]\ncert_file = \"a.pem\"", "server.tls.key_file: must be set too"),
            ("[server.tls]\nkey_file = \"a.pem\"", "server.tls.cert_file: must be set too"),
            ("[server.cors]\norigins = [\"app.example\"]", "server.cors.origins: must"),
            ("[server]\nrequest_timeout_ms = 2000", "server.request_timeout_ms: must be longer"),
            ("[shed]\nmax_misses = 0", "shed.max_misses: must be 1 or more"),
            ("[shed]\nmax_misses = 16", "shed.max_misses: must be less than upstream.pool_size"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn secrets_are_masked() {
        let loaded = read("[upstream]\nurl = \"postgres://u:hunter2@h/d\"").expect("a config");
        let values = loaded.effective();
        let url = values.iter().find(|value| value.key == "upstream.url").expect("upstream.url");
        assert_eq!(url.value, "\"***\"");
        assert!(url.source.contains("tmp") || url.source.contains('/'), "{}", url.source);
        assert!(!format!("{:?}", loaded.config).contains("hunter2"));
        let error = read("[upstream]\nurl = [\"hunter2\"]").expect_err("no URL");
        assert!(error.contains("upstream.url") && !error.contains("hunter2"), "{error}");
    }
}
