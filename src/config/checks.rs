//! Collects the errors that the checks of values find.

use super::error::ConfigError;

/// The errors found so far.
#[derive(Debug, Default)]
pub(super) struct Checks(Vec<ConfigError>);

impl Checks {
    /// Adds "`keys[0]`: `problem`", unless the configuration is `valid`. `keys` are all that the
    /// check depends on.
    pub(super) fn require(&mut self, valid: bool, keys: &[&str], problem: &str) {
        if !valid {
            self.0.push(ConfigError::new(keys, problem));
        }
    }

    pub(super) fn into_errors(self) -> Vec<ConfigError> {
        self.0
    }
}

pub(super) const PUBLIC_URL: &str =
    "must begin with http:// or https://, without a query or fragment";

/// Whether clients can use this as a base URL.
pub(super) fn is_public_url(url: &str) -> bool {
    let is_web = url.starts_with("http://") || url.starts_with("https://");
    is_web && !url.contains(['?', '#'])
}
