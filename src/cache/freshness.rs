//! Classifies entries by their age. Pure functions.

use std::time::Duration;

use crate::config::AgesConfig;

/// The three ages of one kind of entry, all counted from the read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ages {
    /// Younger entries are fresh.
    pub(super) fresh: Duration,
    /// Younger entries are stale: served while they are refreshed in the background.
    pub(super) stale: Duration,
    /// Younger entries are served only while the upstream fails.
    pub(super) if_error: Duration,
}

/// How an entry of some age may be used, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Freshness {
    /// It is served.
    Fresh,
    /// It is served, and refreshed in the background.
    Stale,
    /// It is served only while the upstream fails.
    IfError,
    /// It is never served.
    Expired,
}

impl Ages {
    pub(super) fn classify(&self, age: Duration) -> Freshness {
        if age < self.fresh {
            Freshness::Fresh
        } else if age < self.stale {
            Freshness::Stale
        } else if age < self.if_error {
            Freshness::IfError
        } else {
            Freshness::Expired
        }
    }

    /// These ages, shortened by `thousandths` of themselves; values above 1000 count as 1000.
    pub(super) fn shortened(&self, thousandths: u32) -> Self {
        let shorten = |age: Duration| age * (1000 - thousandths.min(1000)) / 1000;
        Self {
            fresh: shorten(self.fresh),
            stale: shorten(self.stale),
            if_error: shorten(self.if_error),
        }
    }
}

impl From<AgesConfig> for Ages {
    fn from(config: AgesConfig) -> Self {
        let seconds = Duration::from_secs;
        Self {
            fresh: seconds(config.fresh_s),
            stale: seconds(config.fresh_s.saturating_add(config.stale_s)),
            if_error: seconds(config.if_error_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AGES: AgesConfig = AgesConfig { fresh_s: 30, stale_s: 20, if_error_s: 100 };

    #[test]
    fn each_age_ends_where_the_next_begins() {
        let ages = Ages::from(AGES);
        for (ms, expected) in [
            (0, Freshness::Fresh),
            (29_999, Freshness::Fresh),
            (30_000, Freshness::Stale),
            (49_999, Freshness::Stale),
            (50_000, Freshness::IfError),
            (99_999, Freshness::IfError),
            (100_000, Freshness::Expired),
        ] {
            assert_eq!(ages.classify(Duration::from_millis(ms)), expected, "{ms}");
        }
        assert_eq!(ages.shortened(200).classify(Duration::from_secs(24)), Freshness::Stale);
        assert_eq!(ages.shortened(200).classify(Duration::from_secs(80)), Freshness::Expired);
    }

    proptest! {
        #[test]
        fn freshness_only_decreases_with_age_and_with_jitter(
            a in 0..200_000_u64,
            b in 0..200_000_u64,
            thousandths in 0..=200_u32,
        ) {
            let (ages, younger, older) = (Ages::from(AGES), a.min(b), a.max(b));
            let at = |ages: &Ages, ms| ages.classify(Duration::from_millis(ms));
            prop_assert!(at(&ages, younger) <= at(&ages, older));
            prop_assert!(at(&ages, a) <= at(&ages.shortened(thousandths), a));
        }
    }
}
