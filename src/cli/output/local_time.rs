//! Shows times in the user's time zone.

use jiff::tz::TimeZone;

use crate::registry::Timestamp;

/// `2026-01-31 09:09 +01:00`: in the user's time zone (`TZ`, otherwise the system's), with its offset
/// from UTC.
pub(in crate::cli) fn local(at: Timestamp) -> String {
    in_zone(at, TimeZone::system())
}

/// As [`local`]; `never` for `None`.
pub(in crate::cli) fn local_or_never(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "never".to_owned(), local)
}

fn in_zone(at: Timestamp, zone: TimeZone) -> String {
    at.to_zoned_datetime(zone).strftime("%Y-%m-%d %H:%M %:z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_zone_with_its_offset() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let shown = |text: &str| in_zone(text.parse().expect("a time"), zone.clone());
        assert_eq!(shown("2026-01-31T23:59:59Z"), "2026-02-01 00:59 +01:00");
        assert_eq!(shown("2026-07-31T08:09:10Z"), "2026-07-31 10:09 +02:00");
        let utc = in_zone("2026-07-31T08:09:10Z".parse().expect("a time"), TimeZone::UTC);
        assert_eq!(utc, "2026-07-31 08:09 +00:00");
    }
}
