//! Compares the clock of a replica with that of this machine, by the header `Date`.

use std::time::Duration;

use jiff::fmt::rfc2822;

use super::target::Observation;

/// The most that a clock may differ: `Date` has whole seconds, and is renewed once a second.
const MAX_DIFFERENCE: Duration = Duration::from_secs(5);

/// What is wrong with the clock that wrote this response.
pub(super) fn fault(response: &Observation) -> Option<String> {
    let Some(date) = response.header("date").and_then(|date| rfc2822::parse(date).ok()) else {
        return Some("the response has no valid Date".to_owned());
    };
    let ahead = date.timestamp().duration_since(response.at);
    let took = response.received.duration_since(response.sent);
    if ahead.unsigned_abs() <= MAX_DIFFERENCE + took {
        return None;
    }
    let (seconds, side) = (
        ahead.unsigned_abs().as_secs_f64(),
        if ahead.is_negative() { "behind" } else { "ahead of" },
    );
    Some(format!("the clock is {seconds:.1} s {side} that of this machine"))
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp, tz::TimeZone};

    use super::*;

    fn dated(ahead: i64) -> Observation {
        let now = Timestamp::now() + SignedDuration::from_secs(ahead);
        let date =
            now.to_zoned_datetime(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        Observation::of(200, &[("date", &date)])
    }

    #[test]
    fn a_clock_that_is_off_is_a_fault() {
        assert_eq!(fault(&dated(0)), None);
        assert_eq!(fault(&dated(-4)), None);
        for (ahead, side) in [(3_600, " s ahead of that of "), (-3_600, " s behind that of ")] {
            let text = fault(&dated(ahead)).unwrap_or_default();
            assert!(text.starts_with("the clock is 3") && text.contains(side), "{text}");
        }
        assert!(fault(&Observation::of(200, &[])).is_some());
    }
}
