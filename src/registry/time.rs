//! Points in time as the API writes them.

pub use jiff::Timestamp;

/// RFC 3339 in UTC with `Z`, cut to whole seconds: `2026-01-31T08:09:10Z`.
pub fn rfc3339_seconds(at: Timestamp) -> String {
    // The second that has begun, before 1970 too.
    let second = at.as_millisecond().div_euclid(1000);
    Timestamp::from_second(second).unwrap_or(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_to_the_second_that_has_begun() {
        let at = |text: &str| rfc3339_seconds(text.parse().expect("a timestamp"));
        assert_eq!(at("2026-01-31T08:09:10.999999Z"), "2026-01-31T08:09:10Z");
        assert_eq!(at("2026-01-31T08:09:10+02:00"), "2026-01-31T06:09:10Z");
        assert_eq!(at("1969-12-31T23:59:59.5Z"), "1969-12-31T23:59:59Z");
    }
}
