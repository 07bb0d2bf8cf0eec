//! Collects the errors that the checks of values find.

use super::error::ConfigError;
use super::secret_url::has_user;

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

    /// Requires that clients can use the value of `key`, if it is set, as a base URL.
    pub(super) fn require_public_url(&mut self, key: &str, url: Option<&str>) {
        let is_web = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        let is_plain = |url: &str| !url.contains(['?', '#']) && !has_user(url);
        let valid = url.is_none_or(|url| is_web(url) && is_plain(url));
        let problem = "must begin with http:// or https://, without user, query or fragment";
        self.require(valid, &[key], problem);
    }

    pub(super) fn into_errors(self) -> Vec<ConfigError> {
        self.0
    }
}
