//! Configuration errors: all of them are reported at once, each with the key it is about.

use thiserror::Error;

use super::root::Config;

/// One error of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The keys that are involved; the first is the one to correct.
    keys: Vec<String>,
    text: String,
}

impl ConfigError {
    /// An error of `keys[0]` that also depends on the other keys: "`keys[0]`: `problem`".
    pub(crate) fn new(keys: &[&str], problem: &str) -> Self {
        let named = keys.first().copied().unwrap_or_default();
        Self::with_text(keys, format!("{named}: {problem}"))
    }

    /// An error with its whole text, which names the key.
    pub(crate) fn with_text(keys: &[&str], text: String) -> Self {
        Self { keys: keys.iter().map(|&key| key.to_owned()).collect(), text }
    }

    /// Whether this may only be a consequence of `other`: both involve the same key or section.
    fn may_follow_from(&self, other: &Self) -> bool {
        let within = |a: &str, b: &str| {
            a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let concerns = |a: &String| other.keys.iter().any(|b| within(a, b) || within(b, a));
        self.keys.iter().any(concerns)
    }
}

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
