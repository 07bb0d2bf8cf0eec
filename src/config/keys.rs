//! `[keys]`: API keys.

use serde::Deserialize;

/// How API keys are looked up and their use is recorded.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysConfig {
    /// Whether external keys are accepted, which do not have this service's token format.
    pub accept_foreign: bool,
    /// Interval at which the use of keys is written to the database, in seconds, 1 to 86400.
    pub usage_every_s: u64,
}
