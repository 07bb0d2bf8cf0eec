//! Checks that a limit is exact over all replicas, by more requests in one window than it allows.

use hyper::StatusCode;
use tokio::time::Instant;

use super::report::Outcome;
use super::target::Observation;
use crate::limit::WINDOW;
use crate::net::HttpError;

/// What the requests of one window of a key came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    admitted: u32,
    refused: u32,
    /// Without a response, or with an error that may be a proxy's.
    unknown: u32,
}

impl Tally {
    pub(super) fn add(&mut self, result: &Result<Observation, HttpError>) {
        let counter = match result.as_ref().map(|response| response.status) {
            Ok(StatusCode::OK | StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND) => {
                &mut self.admitted
            }
            Ok(StatusCode::TOO_MANY_REQUESTS) => &mut self.refused,
            // The key itself is refused and not counted.
            Ok(StatusCode::UNAUTHORIZED) => return,
            _ => &mut self.unknown,
        };
        *counter += 1;
    }

    pub(super) fn sent(self) -> u32 {
        self.admitted + self.refused + self.unknown
    }
}

/// A window that began with the canary's own request.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyWindow {
    pub(super) limit: u32,
    /// When that request was sent.
    pub(super) began: Instant,
}

impl KeyWindow {
    /// The window that this response opened; `None` if it was open before, or there is no limit.
    pub(super) fn opened_by(response: &Observation) -> Option<Self> {
        let limit = response.number("x-ratelimit-limit")?;
        let remaining = response.number("x-ratelimit-remaining")?;
        let is_first = response.status != StatusCode::TOO_MANY_REQUESTS && remaining + 1 == limit;
        let limit = u32::try_from(limit).ok()?;
        is_first.then_some(Self { limit, began: response.sent })
    }

    /// Judges the requests that were sent in the window until now.
    pub(super) fn outcome(self, tally: Tally) -> Outcome {
        let Tally { admitted, refused, unknown } = tally;
        let (limit, sent) = (self.limit, tally.sent());
        if self.began.elapsed() >= WINDOW {
            return Outcome::NotChecked("the responses took longer than a minute".to_owned());
        }
        if sent <= limit {
            return Outcome::NotChecked(format!("only {sent} requests for a limit of {limit}"));
        }
        let seen = format!(
            "a limit of {limit} admitted {admitted} of {sent} requests, {refused} were refused, \
             {unknown} have no clear result"
        );
        let is_exact = (admitted..=admitted + unknown).contains(&limit);
        if is_exact { Outcome::Kept(seen) } else { Outcome::Broken(vec![seen]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16) -> Result<Observation, HttpError> {
        Ok(Observation::of(status, &[]))
    }

    #[tokio::test]
    async fn a_limit_is_exact_if_it_admits_its_number() {
        let window = KeyWindow { limit: 3, began: Instant::now() };
        for (admitted, refused, unknown, kept) in
            [(3, 1, 0, true), (4, 0, 0, false), (2, 2, 0, false), (2, 1, 1, true), (4, 0, 9, false)]
        {
            let outcome = window.outcome(Tally { admitted, refused, unknown });
            assert_eq!(matches!(outcome, Outcome::Kept(_)), kept, "{outcome:?}");
        }
        let few = window.outcome(Tally { admitted: 3, refused: 0, unknown: 0 });
        assert!(matches!(few, Outcome::NotChecked(_)), "{few:?}");
    }

    #[test]
    fn requests_are_counted_by_their_status() {
        let mut tally = Tally::default();
        for status in [200, 404, 400, 429, 401, 502, 503] {
            tally.add(&answered(status));
        }
        tally.add(&Err(HttpError::Status(StatusCode::OK)));
        assert_eq!((tally.admitted, tally.refused, tally.unknown), (3, 1, 3));
    }

    #[test]
    fn a_window_begins_with_its_first_request() {
        let first = |status, remaining| {
            let limits = [("x-ratelimit-limit", "30"), ("x-ratelimit-remaining", remaining)];
            KeyWindow::opened_by(&Observation::of(status, &limits)).is_some()
        };
        assert!(first(200, "29"));
        assert!(!first(200, "28") && !first(429, "29") && !first(200, ""));
        assert!(KeyWindow::opened_by(&Observation::of(200, &[])).is_none());
    }
}
