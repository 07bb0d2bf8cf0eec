//! Parses the values of options: names, scopes, expiry times and durations.

use std::time::Duration;

use jiff::{SignedDuration, SpanRelativeTo};

use crate::keys::key_rules::{EXPIRES_BEFORE, MAX_OVERLAP_S};
use crate::registry::{LABEL, READ_SCOPE, SCOPE, Timestamp, is_label, is_scope};

/// The name of a key or of its owner.
pub(super) fn label(text: &str) -> Result<String, String> {
    is_label(text).then(|| text.to_owned()).ok_or_else(|| format!("expected {LABEL}"))
}

/// What a key may do.
pub(super) fn scope(text: &str) -> Result<String, String> {
    let invalid = || format!("expected {SCOPE}; the only scope at present is {READ_SCOPE}");
    is_scope(text).then(|| text.to_owned()).ok_or_else(invalid)
}

/// A name that Postgres takes without quotes.
pub(super) fn sql_name(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = (1..=63).contains(&text.len())
        && text.bytes().all(is_allowed)
        && !text.starts_with(|first: char| first.is_ascii_digit());
    let expected = "expected 1 to 63 of the characters a-z, 0-9 and _, the first of them no digit";
    is_name.then(|| text.to_owned()).ok_or_else(|| expected.to_owned())
}

/// Requests per minute. A key with 0 is not useful, but may be requested.
pub(super) fn rate_limit(text: &str) -> Result<u32, String> {
    let limit = text.parse::<i32>().ok().and_then(|limit| u32::try_from(limit).ok());
    limit.ok_or_else(|| "expected 1 to 2147483647, or 0 with --block".to_owned())
}

/// When a key expires: a duration from now, a date (its start in UTC) or a time. Must be in the
/// future and before the year 10000.
pub(super) fn expiry(text: &str) -> Result<Timestamp, String> {
    let utc = jiff::tz::TimeZone::UTC;
    let at = if let Ok(at) = text.parse::<Timestamp>() {
        at
    } else if let Ok(date) = text.parse::<jiff::civil::Date>() {
        date.to_zoned_datetime(utc).map_err(|error| error.to_string())?.timestamp()
    } else {
        let span = text.parse::<jiff::Span>().map_err(|_| {
            "expected a duration such as 90d, 12h or 1s, a date such as 2030-01-31, \
             or a time such as 2030-01-31T12:00:00Z"
        })?;
        let now = Timestamp::now().to_zoned_datetime(utc);
        now.checked_add(span).map_err(|error| error.to_string())?.timestamp()
    };
    if at >= EXPIRES_BEFORE {
        return Err("must be before 9999-12-30".to_owned());
    }
    if at <= Timestamp::now() {
        return Err("the time is not in the future; the key would never work".to_owned());
    }
    Ok(at)
}

/// When a key expires from now on; `None` for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewExpiry(pub(super) Option<Timestamp>);

/// As [`expiry`], or `never`.
pub(super) fn expiry_or_never(text: &str) -> Result<NewExpiry, String> {
    if text == "never" { Ok(NewExpiry(None)) } else { expiry(text).map(|at| NewExpiry(Some(at))) }
}

/// How long a rotated key still works, in whole seconds, up to 365 days: `24h`, `7d`, `0s`.
pub(super) fn overlap(text: &str) -> Result<u32, String> {
    let seconds = || {
        let span = text.parse::<jiff::Span>().ok()?;
        let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
        u32::try_from(duration.as_secs()).ok().filter(|seconds| *seconds <= MAX_OVERLAP_S)
    };
    let expected = "expected a duration of up to 365 days, such as 24h, 7d, 30m or 0s";
    seconds().ok_or_else(|| expected.to_owned())
}

/// The pause between two rounds of maintenance: 1 second to 24 hours.
pub(super) fn pause(text: &str) -> Result<Duration, String> {
    let given = text.parse::<SignedDuration>().ok().and_then(|given| given.try_into().ok());
    let range = Duration::from_secs(1)..=Duration::from_secs(86_400);
    let expected = "expected a duration of 1s to 24h, such as 60s or 5m";
    given.filter(|given| range.contains(given)).ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_a_duration_a_date_or_a_future_time() {
        let seconds_from_now = |text| {
            let at = expiry(text).expect(text);
            at.duration_since(Timestamp::now()).as_secs()
        };
        assert!((90 * 86_400 - 5..=90 * 86_400).contains(&seconds_from_now("90d")));
        assert!((0..=1).contains(&seconds_from_now("1s")));
        assert_eq!(expiry("2090-01-31").expect("a date").to_string(), "2090-01-31T00:00:00Z");
        let time = expiry("2090-01-31T12:00:00+02:00").expect("a time");
        assert_eq!(time.to_string(), "2090-01-31T10:00:00Z");
        for wrong in
            ["", "soon", "-1d", "0s", "90", "2090-02-30", "2020-01-31", "1 year ago", "9999-12-30"]
        {
            assert!(expiry(wrong).is_err(), "{wrong}");
            assert!(expiry_or_never(wrong).is_err(), "{wrong}");
        }
        assert!(expiry("never").is_err());
        assert_eq!(expiry_or_never("never"), Ok(NewExpiry(None)));
        assert!(expiry_or_never("90d").is_ok_and(|NewExpiry(at)| at.is_some()));
    }

    #[test]
    fn names_need_no_quotes() {
        for name in ["registry", "_a1", &"x".repeat(63)] {
            assert_eq!(sql_name(name).as_deref(), Ok(name));
        }
        for wrong in ["", "1a", "A", "a-b", "a\"b", "ü", &"x".repeat(64)] {
            assert!(sql_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn overlaps_are_durations_in_seconds() {
        for (text, expected) in
            [("24h", 86_400), ("7d", 604_800), ("0s", 0), ("1h30m", 5_400), ("365d", 31_536_000)]
        {
            assert_eq!(overlap(text), Ok(expected), "{text}");
        }
        for wrong in ["", "1", "soon", "-1s", "2026-01-01", "100000000h", "366d", "8761h"] {
            assert!(overlap(wrong).is_err(), "{wrong}");
        }
    }
}
