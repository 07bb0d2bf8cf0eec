//! Logs why responses are 5xx: at WARN, also where requests are not logged, and for each kind of cause
//! at most once in ten seconds.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use poem::Response;

use super::error::ErrorCause;
use crate::ops::error_chain;
use crate::sync::lock;

/// Minimum time between two lines about one kind of cause.
const INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of kinds that are told apart.
const MAX_KINDS: usize = 64;

/// The cause of a response without one: only a panic or a bug has none.
const LOGGED_ERROR: &str = "a bug; the log has an error about it";

/// What was logged of one listener's failures.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<HashMap<String, LoggedKind>>);

#[derive(Debug)]
struct LoggedKind {
    logged_at: Instant,
    /// Number of failures since.
    suppressed: u64,
}

impl FailureLog {
    /// Logs the cause of a 5xx response.
    pub(crate) fn record(&self, response: &Response, route: &str, request_id: &str) {
        if !response.status().is_server_error() {
            return;
        }
        let cause = response.data::<ErrorCause>().map(|cause| error_chain(&*cause.0));
        let cause = cause.as_deref().unwrap_or(LOGGED_ERROR);
        if let Some(suppressed) = self.due(cause, Instant::now()) {
            let status = response.status().as_u16();
            tracing::warn!(
                target: "gene_registry::failure",
                status,
                route,
                cause,
                suppressed,
                request_id,
                "a request failed"
            );
        }
    }

    /// How many failures of the same kind were not logged since the last line, if a line is due.
    fn due(&self, cause: &str, now: Instant) -> Option<u64> {
        let (mut kinds, mut kind) = (lock(&self.0), kind(cause));
        if kinds.len() >= MAX_KINDS && !kinds.contains_key(&kind) {
            kind.clear();
        }
        let Some(known) = kinds.get_mut(&kind) else {
            kinds.insert(kind, LoggedKind { logged_at: now, suppressed: 0 });
            return Some(0);
        };
        if now.duration_since(known.logged_at) < INTERVAL {
            known.suppressed += 1;
            return None;
        }
        known.logged_at = now;
        Some(std::mem::take(&mut known.suppressed))
    }
}

/// The cause without the words that differ from failure to failure, such as ids: those with a digit.
fn kind(cause: &str) -> String {
    let words = cause.split_whitespace();
    words.filter(|word| !word.contains(|c: char| c.is_ascii_digit())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_cause_is_due_once_in_ten_seconds_with_the_number_of_others() {
        let (log, start) = (FailureLog::default(), Instant::now());
        let due = |cause: &str, second| log.due(cause, start + Duration::from_secs(second));
        assert_eq!(due("gene 0a1b: no fidelity", 0), Some(0));
        assert_eq!(due("gene 2c3d: no fidelity", 1), None);
        assert_eq!(due("no database", 1), Some(0), "another kind");
        assert_eq!(due("gene 2c3d: no fidelity", 9), None);
        assert_eq!(due("gene 4e5f: no fidelity", 10), Some(2));
        assert_eq!(due("gene 4e5f: no fidelity", 20), Some(0));
    }

    #[test]
    fn the_number_of_kinds_is_bounded() {
        let (log, now) = (FailureLog::default(), Instant::now());
        let due = |number: usize| log.due(&"x".repeat(number + 1), now);
        assert!((0..MAX_KINDS).all(|number| due(number) == Some(0)));
        assert_eq!(due(MAX_KINDS), Some(0), "the first of the others");
        assert!((1..1_000).all(|number| due(MAX_KINDS + number).is_none()));
        assert_eq!(lock(&log.0).len(), MAX_KINDS + 1);
    }
}
