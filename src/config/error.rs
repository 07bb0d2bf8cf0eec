//! What is wrong with a configuration: everything at once, each with the key it is about.

use thiserror::Error;

use super::Config;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The keys it is about, the first of which is named.
    keys: Vec<String>,
    text: String,
}

impl ConfigError {
    /// `keys[0]` has to be as `what` says, which depends on the other keys too.
    pub(crate) fn new(keys: &[&str], what: &str) -> Self {
        let named = keys.first().copied().unwrap_or_default();
        Self::worded(keys, format!("{named}: {what}"))
    }

    /// The same in words of its own, which name the key.
    pub(crate) fn worded(keys: &[&str], text: String) -> Self {
        Self { keys: keys.iter().map(|&key| key.to_owned()).collect(), text }
    }

    /// Whether it may only follow from another one: what that is about had no value of its own.
    fn may_follow_from(&self, other: &Self) -> bool {
        let within = |a: &str, b: &str| {
            a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let concerns = |a: &String| other.keys.iter().any(|b| within(a, b) || within(b, a));
        self.keys.iter().any(concerns)
    }
}

/// The configuration can't be used. Each line names the key.
#[derive(Debug, Error)]
#[error("the configuration cannot be used:\n  {}", .faults.iter().map(|fault| fault.text.as_str())
    .collect::<Vec<_>>().join("\n  "))]
pub struct InvalidConfig {
    pub(super) faults: Vec<ConfigError>,
    /// With the defaults in place of what is wrong by itself.
    pub(super) mended: Option<Box<Config>>,
}

impl InvalidConfig {
    /// All that `look` finds in a configuration too, but what may only follow from the rest.
    pub(crate) fn and(mut self, look: impl FnOnce(&Config) -> Vec<ConfigError>) -> Self {
        let found = self.mended.as_deref().map(look).unwrap_or_default();
        add(&mut self.faults, found);
        self
    }
}

impl From<Vec<ConfigError>> for InvalidConfig {
    fn from(faults: Vec<ConfigError>) -> Self {
        Self { faults, mended: None }
    }
}

/// Adds what does not only follow from what was found before.
pub(super) fn add(faults: &mut Vec<ConfigError>, found: Vec<ConfigError>) {
    let new = found.into_iter().filter(|fault| !faults.iter().any(|b| fault.may_follow_from(b)));
    let new: Vec<_> = new.collect();
    faults.extend(new);
}
