//! `[keys]`: API keys.

use std::path::PathBuf;

use secrecy::SecretString;
use serde::Deserialize;

/// How API keys are looked up and their use is recorded.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysConfig {
    /// Whether external keys are accepted, which do not have this service's token format.
    pub accept_foreign: bool,
    /// `postgres://…` with the role that records the use of keys; also set by `USAGE_DATABASE_URL`.
    pub usage_database_url: Option<SecretString>,
    /// A file with that URL.
    pub usage_database_url_file: Option<PathBuf>,
    /// Interval at which the use of keys is written to the database, in seconds, 1 to 86400.
    pub usage_every_s: u64,
}
