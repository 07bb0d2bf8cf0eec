//! Checks that a limit is exact over all replicas, by more requests in one window than it allows.

use std::fmt::Display;
use std::time::Duration;

use hyper::StatusCode;
use tokio::time::Instant;

use super::report::Outcome;
use super::target::{BaseUrl, Observation};
use crate::limit::WINDOW;

/// The highest limit of the canary's key, which it uses up in each round.
pub(super) const MAX_LIMIT: u64 = 1_000;

/// What the requests of one window of a key came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    admitted: u64,
    refused: u64,
    /// Without a response, or with an error that may be a proxy's.
    unknown: u64,
}

impl Tally {
    /// Adds a request by the status of its response, if it has one from the API.
    pub(super) fn add(&mut self, status: Option<StatusCode>) {
        let counter = match status {
            Some(StatusCode::OK | StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND) => {
                &mut self.admitted
            }
            Some(StatusCode::TOO_MANY_REQUESTS) => &mut self.refused,
            // The key itself is refused and not counted.
            Some(StatusCode::UNAUTHORIZED) => return,
            _ => &mut self.unknown,
        };
        *counter += 1;
    }

    /// The requests with a clear result.
    pub(super) fn clear(self) -> u64 {
        self.admitted + self.refused
    }

    fn sent(self) -> u64 {
        self.admitted + self.refused + self.unknown
    }
}

/// A window of the key, at least from the canary's first request on.
#[derive(Debug, Clone)]
pub(super) struct KeyWindow {
    /// Where the first request was admitted.
    pub(super) replica: BaseUrl,
    pub(super) limit: u64,
    /// What was left of the limit after the first request.
    first_left: u64,
    /// Whether that request opened it.
    pub(super) is_new: bool,
    /// When that request was sent.
    pub(super) began: Instant,
    /// From then on, how long the window lasts.
    pub(super) resets_in: Duration,
}

impl KeyWindow {
    /// The window in which a request of a key with this limit got this response, the last one in `tally`.
    pub(super) fn of(replica: &BaseUrl, response: &Observation, limit: u64, tally: Tally) -> Self {
        let first_left = response.number("x-ratelimit-remaining").unwrap_or_default();
        let is_admitted = response.status != StatusCode::TOO_MANY_REQUESTS;
        let resets_in = Duration::from_secs(response.number("x-ratelimit-reset").unwrap_or(60));
        let is_new = is_admitted && first_left + tally.admitted == limit;
        let (replica, resets_in) = (replica.clone(), resets_in.min(WINDOW));
        Self { replica, limit, first_left, is_new, began: response.sent, resets_in }
    }

    /// Judges the requests that were sent in the window until now. `differing`: what shows that the
    /// replicas do not use the same count.
    pub(super) fn outcome(self, tally: Tally, differing: Option<String>) -> Outcome {
        let Tally { admitted, refused, unknown } = tally;
        let (limit, sent) = (self.limit, tally.sent());
        if self.began.elapsed() >= WINDOW {
            return Outcome::NotChecked("the responses took longer than a minute".to_owned());
        }
        if let Some(differing) = differing {
            return Outcome::Broken(vec![differing]);
        }
        if !self.is_new {
            return Outcome::Broken(vec![format!(
                "the first request in a window, to {}, left {} of {limit}: replicas count by \
                 themselves, or another client uses the key of the canary",
                self.replica, self.first_left
            )]);
        }
        let seen = format!(
            "a limit of {limit} admitted {admitted} of {sent} requests, {refused} were refused, \
             {unknown} have no clear result"
        );
        if admitted > limit {
            return Outcome::Broken(vec![seen]);
        }
        if sent <= limit || refused == 0 {
            return Outcome::NotChecked(seen);
        }
        if admitted + unknown < limit { Outcome::Broken(vec![seen]) } else { Outcome::Kept(seen) }
    }
}

/// Requests of one key that were sent one after the other must each leave less of its limit than the
/// one before, whatever else is sent meanwhile. What is wrong, otherwise. `left`: what each left at
/// which replica.
pub(super) fn shared_count(left: &[(impl Display, u64)]) -> Option<String> {
    let pair = left.windows(2).find(|pair| pair[0].1 > 0 && pair[1].1 >= pair[0].1)?;
    let [(before, had), (after, has)] = pair else { return None };
    Some(format!(
        "replicas count by themselves: after a request to {before}, {had} were left, and after the next \
         one, to {after}, {has}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(response: &Observation, limit: u64) -> KeyWindow {
        let mut tally = Tally::default();
        tally.add(Some(response.status));
        KeyWindow::of(&"http://a".parse().unwrap(), response, limit, tally)
    }

    fn window(limit: &str, remaining: &str) -> KeyWindow {
        let limits = [("x-ratelimit-limit", limit), ("x-ratelimit-remaining", remaining)];
        of(&Observation::of(200, &limits), limit.parse().unwrap())
    }

    #[tokio::test]
    async fn a_limit_is_exact_if_it_admits_its_number_and_refuses_more() {
        for (admitted, refused, unknown, expected) in [
            (3, 1, 0, "kept"),
            (4, 0, 0, "broken"),
            (2, 2, 0, "broken"),
            (2, 1, 1, "kept"),
            (4, 0, 9, "broken"),
            (3, 0, 0, "not checked"),
            (2, 0, 9, "not checked"),
        ] {
            let tally = Tally { admitted, refused, unknown };
            let found = match window("3", "2").outcome(tally, None) {
                Outcome::Kept(_) => "kept",
                Outcome::Broken(_) => "broken",
                Outcome::NotChecked(_) => "not checked",
            };
            assert_eq!(found, expected, "{tally:?}");
        }
    }

    #[tokio::test]
    async fn counts_that_are_not_shared_are_broken() {
        let exact = Tally { admitted: 3, refused: 1, unknown: 0 };
        let outcome = |left: &[(&str, u64)]| window("3", "2").outcome(exact, shared_count(left));
        assert!(matches!(outcome(&[("a", 9), ("b", 8), ("a", 5)]), Outcome::Kept(_)));
        assert!(matches!(outcome(&[("a", 1), ("b", 0), ("a", 0)]), Outcome::Kept(_)));
        assert!(matches!(outcome(&[("a", 9), ("s", 4), ("a", 8)]), Outcome::Broken(_)));
        assert!(matches!(outcome(&[("s", 4), ("t", 4)]), Outcome::Broken(_)));
        let share = window("60", "14").outcome(exact, None);
        assert!(matches!(share, Outcome::Broken(_)), "{share:?}");
    }

    #[test]
    fn requests_are_counted_by_their_status() {
        let mut tally = Tally::default();
        for status in [200, 404, 400, 429, 401, 502, 503] {
            tally.add(StatusCode::from_u16(status).ok());
        }
        tally.add(None);
        assert_eq!((tally.admitted, tally.refused, tally.unknown), (3, 1, 3));
    }

    #[test]
    fn a_window_begins_with_its_first_request() {
        assert!(window("30", "29").is_new);
        assert!(!window("30", "28").is_new && !window("30", "").is_new);
        let refused = [("x-ratelimit-remaining", "29")];
        assert!(!of(&Observation::of(429, &refused), 30).is_new);
    }
}
