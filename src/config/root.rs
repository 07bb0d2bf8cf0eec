//! The whole configuration as one struct.

use secrecy::ExposeSecret;
use serde::Deserialize;

use super::cache::CacheConfig;
use super::control::ControlConfig;
use super::keys::KeysConfig;
use super::log::LogConfig;
use super::redis::{RateLimitConfig, RedisConfig};
use super::registry::RegistryConfig;
use super::server::{OpsConfig, ServerConfig};
use super::shed::ShedConfig;
use super::telemetry::TelemetryConfig;
use super::upstream::UpstreamConfig;

/// A whole configuration, one field for each section. Every key but the URLs has a default.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each section's struct is documented")]
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
    /// Unsets URLs that are empty, which is how compose files unset values.
    pub(super) fn without_empty_urls(mut self) -> Self {
        for url in [
            &mut self.upstream.url,
            &mut self.redis.url,
            &mut self.control.database_url,
            &mut self.keys.usage_database_url,
        ] {
            if url.as_ref().is_some_and(|url| url.expose_secret().is_empty()) {
                *url = None;
            }
        }
        self
    }
}
