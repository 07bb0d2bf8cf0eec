//! How old an answer may be: pure functions of ages.

use std::time::Duration;

use crate::config::AgesConfig;

/// The three ages of one kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ages {
    /// Younger than this: sent.
    pub(super) fresh: Duration,
    /// Younger than this: sent only while the upstream fails.
    pub(super) if_error: Duration,
}

/// What may be done with an answer of a certain age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It is sent.
    Fresh,
    /// It is sent only while the upstream fails.
    IfError,
    /// It is never sent.
    Dead,
}

impl Ages {
    /// What may be done with an answer of age `age`.
    pub(super) fn judge(&self, age: Duration) -> Freshness {
        if age < self.fresh {
            Freshness::Fresh
        } else if age < self.if_error {
            Freshness::IfError
        } else {
            Freshness::Dead
        }
    }
}

impl From<AgesConfig> for Ages {
    fn from(config: AgesConfig) -> Self {
        Self {
            fresh: Duration::from_secs(config.fresh_s),
            if_error: Duration::from_secs(config.if_error_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_age_ends_where_the_next_begins() {
        let ages = Ages { fresh: Duration::from_secs(30), if_error: Duration::from_secs(100) };
        let at = |ms| ages.judge(Duration::from_millis(ms));
        assert_eq!(at(0), Freshness::Fresh);
        assert_eq!(at(29_999), Freshness::Fresh);
        assert_eq!(at(30_000), Freshness::IfError);
        assert_eq!(at(99_999), Freshness::IfError);
        assert_eq!(at(100_000), Freshness::Dead);
    }
}
