//! An invalid configuration, with all of its errors.

use thiserror::Error;

use super::error::ConfigError;
use super::root::Config;

/// The configuration cannot be used. The text has one line for each error.
#[derive(Debug, Error)]
#[error("the configuration cannot be used:\n  {}", .errors.iter().map(|error| error.text.as_str())
    .collect::<Vec<_>>().join("\n  "))]
pub struct InvalidConfig {
    pub(super) errors: Vec<ConfigError>,
    /// The configuration with defaults instead of the invalid values, for further checks.
    pub(super) with_defaults: Option<Box<Config>>,
}

impl InvalidConfig {
    /// Adds the errors that `check` finds in the rest of the configuration, without those that may
    /// only follow from the known errors.
    pub(crate) fn and(mut self, check: impl FnOnce(&Config) -> Vec<ConfigError>) -> Self {
        let found = self.with_defaults.as_deref().map(check).unwrap_or_default();
        add(&mut self.errors, found);
        self
    }

    /// The text of each error, which names the key.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.errors.iter().map(|error| error.text.as_str())
    }
}

impl From<Vec<ConfigError>> for InvalidConfig {
    fn from(errors: Vec<ConfigError>) -> Self {
        Self { errors, with_defaults: None }
    }
}

/// Adds the errors of `found` that do not follow from those in `errors`.
pub(super) fn add(errors: &mut Vec<ConfigError>, found: Vec<ConfigError>) {
    let new = found.into_iter().filter(|error| !errors.iter().any(|b| error.may_follow_from(b)));
    let new: Vec<_> = new.collect();
    errors.extend(new);
}
