//! One error of a configuration, with the keys that it is about.

/// One error of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The keys that are involved; the first is the one to correct.
    keys: Vec<String>,
    pub(super) text: String,
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
    pub(super) fn may_follow_from(&self, other: &Self) -> bool {
        let within = |a: &str, b: &str| {
            a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let concerns = |a: &String| other.keys.iter().any(|b| within(a, b) || within(b, a));
        self.keys.iter().any(concerns)
    }
}
