//! The results of the canary's checks, and the report of one round.

use std::fmt::Write as _;
use std::time::Duration;

/// The promises that the canary checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Check {
    /// Each replica responds.
    Responds,
    /// Age and cache status of each kind of response are as documented.
    Ages,
    /// Cached responses are confirmed by the change log.
    ChangeLog,
    /// The clock of each replica is right.
    Clock,
    /// All replicas serve the same registry.
    Agreement,
    /// A limit is exact over all replicas.
    Limit,
    /// A revoked key is refused in time.
    Revocation,
}

impl Check {
    /// Its word in reports, logs and metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Responds => "responds",
            Self::Ages => "ages",
            Self::ChangeLog => "change_log",
            Self::Clock => "clock",
            Self::Agreement => "agreement",
            Self::Limit => "limit",
            Self::Revocation => "revocation",
        }
    }
}

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The promise was kept; what was seen.
    Kept(String),
    /// It was broken; how, for each replica.
    Broken(Vec<String>),
    /// It was not checked; why.
    NotChecked(String),
}

impl Outcome {
    /// Broken if there is any of these, otherwise kept.
    pub(super) fn of(broken: Vec<String>, kept: impl Into<String>) -> Self {
        if broken.is_empty() { Self::Kept(kept.into()) } else { Self::Broken(broken) }
    }
}

/// The results of a round.
#[derive(Debug, Default)]
pub(super) struct RoundReport {
    pub(super) outcomes: Vec<(Check, Outcome)>,
    /// From the revocation of a key to its refusal by the last replica, if that was measured.
    pub(super) revocation: Option<Duration>,
}

impl RoundReport {
    pub(super) fn add(&mut self, check: Check, outcome: Outcome) {
        self.outcomes.push((check, outcome));
    }

    /// What was broken, with its check.
    pub(super) fn broken(&self) -> impl Iterator<Item = (Check, &str)> {
        self.outcomes.iter().flat_map(|(check, outcome)| {
            let texts = match outcome {
                Outcome::Broken(texts) => texts.as_slice(),
                Outcome::Kept(_) | Outcome::NotChecked(_) => &[],
            };
            texts.iter().map(|text| (*check, text.as_str()))
        })
    }

    /// One line for each check, those that failed first.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (check, broken) in self.broken() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "broken: {}: {broken}", check.as_str());
        }
        for (check, outcome) in &self.outcomes {
            let _ = match outcome {
                Outcome::NotChecked(why) => {
                    writeln!(text, "not checked: {}: {why}", check.as_str())
                }
                Outcome::Kept(seen) => writeln!(text, "kept: {}: {seen}", check.as_str()),
                Outcome::Broken(_) => Ok(()),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_begins_with_what_is_broken() {
        let mut report = RoundReport::default();
        report.add(Check::Ages, Outcome::of(Vec::new(), "9 responses"));
        report.add(Check::Clock, Outcome::of(vec!["a".to_owned(), "b".to_owned()], "2 replicas"));
        report.add(Check::Revocation, Outcome::NotChecked("no --server".to_owned()));
        let expected = "broken: clock: a\nbroken: clock: b\nkept: ages: 9 responses\n\
                        not checked: revocation: no --server\n";
        assert_eq!(report.text(), expected);
        assert_eq!(report.broken().count(), 2);
    }
}
