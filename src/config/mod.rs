//! Configuration: one struct for each section; `config/default.toml` documents every key.

mod cache;
mod checks;
mod control;
mod cors;
mod error;
mod invalid;
mod keys;
mod load;
mod log;
mod network;
mod reason;
mod redis;
mod registry;
mod root;
mod rules;
mod secret_url;
mod secrets;
mod server;
mod shed;
mod telemetry;
#[cfg(test)]
mod tests;
mod tls;
mod toml_format;
mod upstream;
mod values;

pub use cache::{AgesConfig, CacheConfig};
pub(crate) use control::is_confidential_url;
pub use control::{ControlConfig, OidcConfig, TokenConfig};
pub use cors::CorsConfig;
pub use error::ConfigError;
pub use invalid::InvalidConfig;
pub use keys::KeysConfig;
pub(crate) use load::{CONFIG_FILE_VARIABLE, unknown_variables};
pub use load::{EffectiveValue, LoadedConfig};
pub use log::{LogConfig, LogFormat};
pub use network::{InvalidNetwork, Network};
pub use redis::{RateLimitConfig, RedisConfig, SentinelConfig, Topology, WithoutRedis};
pub use registry::RegistryConfig;
pub use root::Config;
pub use secret_url::check_percent_escapes;
pub use server::{OpsConfig, ServerConfig};
pub use shed::ShedConfig;
pub use telemetry::TelemetryConfig;
pub use tls::TlsConfig;
pub use upstream::UpstreamConfig;
