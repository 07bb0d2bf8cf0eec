//! Configuration: one struct a concern, every key documented in `config/default.toml`.

mod cache;
mod control;
mod cors;
mod error;
mod load;
mod network;
mod redis;
mod rules;
mod secret_url;
mod server;
mod shed;
mod small;
mod tls;
mod upstream;
mod values;

use secrecy::ExposeSecret;
use serde::Deserialize;

pub use cache::{AgesConfig, CacheConfig};
pub(crate) use control::is_trustworthy;
pub use control::{ControlConfig, OidcConfig, TokenConfig};
pub use cors::CorsConfig;
pub use error::{ConfigError, InvalidConfig};
pub use load::{Effective, LoadedConfig};
pub use network::{InvalidNetwork, Network};
pub use redis::{RateLimitConfig, RedisConfig, SentinelConfig, Topology, WithoutRedis};
pub use secret_url::check_escapes;
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

impl Config {
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

    fn read(text: &str) -> Result<LoadedConfig, String> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        LoadedConfig::read(Some(file.path())).map_err(|error| error.to_string())
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
            ("[redis]\ntopology = \"ring\"", "redis.topology"),
            (
                "[redis]\nurls = [\"redis://h\"]",
                "redis.urls: is not for redis.topology = \"single\"",
            ),
            ("[redis]\ntopology = \"cluster\"", "redis.urls: must be set too"),
            ("[redis]\ntopology = \"cluster\"\nurl = \"redis://h\"", "redis.url: is not for"),
            ("[redis]\ntopology = \"cluster\"\nprefix = \"{a}\"", "redis.prefix: must not"),
            ("[redis]\ntopology = \"sentinel\"", "redis.sentinel.service: must be set too"),
            ("[redis.sentinel]\nservice = \"a\"", "redis.sentinel.service: is only for"),
            ("[redis.sentinel]\npassword = \"a\"", "redis.sentinel.password: is only for"),
            ("[redis]\nusername = \"a\"", "redis.password: must be set too"),
            ("[rate_limit]\nwithout_redis = \"hope\"", "rate_limit.without_redis"),
            ("[cache.search]\nif_error_s = 10", "cache.search.if_error_s"),
            ("[upstream]\ndeadline_ms = 10", "upstream.deadline_ms"),
            ("[server]\npublic_url = \"api.example\"", "server.public_url"),
            ("[server.tls]\ncert_file = \"a.pem\"", "server.tls.key_file: must be set too"),
            ("[server.tls]\nkey_file = \"a.pem\"", "server.tls.cert_file: must be set too"),
            ("[server.cors]\norigins = [\"app.example\"]", "server.cors.origins: must"),
            ("[server]\nrequest_timeout_ms = 2000", "server.request_timeout_ms: must be longer"),
            ("[shed]\nmax_misses = 0", "shed.max_misses: must be 1 or more"),
            (
                "[shed]\nwait_ms = 2001",
                "shed.wait_ms: must not be longer than upstream.deadline_ms",
            ),
            (
                "[server.tls]\ncert_file = \"\"\nkey_file = \"\"",
                "server.tls.key_file: must name a PEM",
            ),
            ("[shed]\nmax_misses = 16", "shed.max_misses: must be less than upstream.pool_size"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn everything_that_is_wrong_is_named_at_once_and_nothing_that_only_follows() {
        let wrong = r#"
            sever = 1
            [server]
            bnid = "x"
            bind = "nowhere"
            request_timeout_ms = 1
            trusted_proxies = ["10.0.0.0/8", "x", "10.0.0.0/99", "::1", "y"]
            [server.tls]
            cert_file = 5
            key_file = "key.pem"
            [upstream]
            deadline_ms = "soon"
            pool_size = 0
            url = ["hunter2"]
            [redis]
            prefix = ""
            [control]
            bind = "127.0.0.1:1"
            [[control.tokens]]
            user = "a"
            sha256 = "hunter2"
            [[control.tokens]]
            user = "b"
            [cache.search]
            fresh_s = 90000
        "#;
        let error = read(wrong).expect_err("wrong");
        let mut named: Vec<_> = error
            .lines()
            .skip(1)
            .map(|line| line.trim().split([' ', ':']).next().expect("a key"))
            .collect();
        named.sort_unstable();
        let expected = [
            "cache.search.if_error_s",
            "control.tokens.0.sha256",
            "control.tokens.1",
            "redis.prefix",
            "server.bind",
            "server.bnid",
            "server.tls.cert_file",
            "server.trusted_proxies.1",
            "server.trusted_proxies.2",
            "server.trusted_proxies.4",
            "sever",
            "upstream.deadline_ms",
            "upstream.pool_size",
            "upstream.url",
        ];
        assert_eq!(named, expected, "{error}");
        assert!(!error.contains("hunter2"), "{error}");
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
