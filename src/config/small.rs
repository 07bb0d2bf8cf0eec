//! `[keys]`, `[registry]` and `[log]`.

use std::time::Duration;

use serde::Deserialize;

/// API keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysConfig {
    /// Also look up keys that were made elsewhere.
    pub accept_foreign: bool,
    /// Between two batches of counts of keys' use, in seconds, 1 to 86400.
    pub usage_every_s: u64,
}

impl KeysConfig {
    /// Between two batches of counts of keys' use.
    pub const fn usage_every(&self) -> Duration {
        Duration::from_secs(self.usage_every_s)
    }
}

/// What the registry itself leaves open.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryConfig {
    /// The install command where the registry has none; `{id}` is the gene's.
    pub install_command: String,
}

/// The log.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// A level, or directives.
    pub level: String,
    /// How events are written.
    pub format: LogFormat,
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One object a line.
    Json,
}
