//! The whole configuration as one struct.

use serde::Deserialize;

use super::cache::CacheConfig;
use super::control::ControlConfig;
use super::keys::KeysConfig;
use super::log::LogConfig;
use super::pages::PagesConfig;
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
    pub pages: PagesConfig,
    pub log: LogConfig,
    pub telemetry: TelemetryConfig,
}
