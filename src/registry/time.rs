//! The format of times in the API.

pub use jiff::Timestamp;

/// The first second of the year 1. RFC 3339 has no years before 0.
const YEAR_1: i64 = -62_135_596_800;

/// RFC 3339 in UTC with `Z`, rounded down to whole seconds: `2026-01-31T08:09:10Z`. Times before the
/// year 1 are shown as its beginning.
pub fn rfc3339_seconds(at: Timestamp) -> String {
    // Euclidean, to round down before 1970 too.
    let second = at.as_millisecond().div_euclid(1000).max(YEAR_1);
    Timestamp::from_second(second).unwrap_or(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_down_to_seconds() {
        let at = |text: &str| rfc3339_seconds(text.parse().expect("a timestamp"));
        assert_eq!(at("2026-01-31T08:09:10.999999Z"), "2026-01-31T08:09:10Z");
        assert_eq!(at("2026-01-31T08:09:10+02:00"), "2026-01-31T06:09:10Z");
        assert_eq!(at("1969-12-31T23:59:59.5Z"), "1969-12-31T23:59:59Z");
        assert_eq!(rfc3339_seconds(Timestamp::MIN), "0001-01-01T00:00:00Z");
        assert_eq!(rfc3339_seconds(Timestamp::MAX), "9999-12-30T22:00:00Z");
    }
}
