//! Shows times in the user's time zone.

use jiff::tz::TimeZone;

use crate::registry::Timestamp;

/// How much of a time is shown.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum TimeFormat {
    /// `2026-01-31 09:09 +01:00`: with the offset from UTC.
    WithOffset,
    /// `2026-01-31 09:09`.
    Minutes,
    /// `2026-01-31`.
    Date,
}

/// The time in the user's time zone (`TZ`, otherwise the system's), with its offset from UTC.
pub(in crate::cli) fn local(at: Timestamp) -> String {
    local_as(TimeFormat::WithOffset, at)
}

/// As [`local`], in this format.
pub(in crate::cli) fn local_as(format: TimeFormat, at: Timestamp) -> String {
    in_zone(format, at, TimeZone::system())
}

/// As [`local`]; `never` for `None`.
pub(in crate::cli) fn local_or_never(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "never".to_owned(), local)
}

fn in_zone(format: TimeFormat, at: Timestamp, zone: TimeZone) -> String {
    let format = match format {
        TimeFormat::WithOffset => "%Y-%m-%d %H:%M %:z",
        TimeFormat::Minutes => "%Y-%m-%d %H:%M",
        TimeFormat::Date => "%Y-%m-%d",
    };
    at.to_zoned_datetime(zone).strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_zone_with_its_offset() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let shown =
            |format, text: &str| in_zone(format, text.parse().expect("a time"), zone.clone());
        let winter = "2026-01-31T23:59:59Z";
        assert_eq!(shown(TimeFormat::WithOffset, winter), "2026-02-01 00:59 +01:00");
        assert_eq!(shown(TimeFormat::Minutes, winter), "2026-02-01 00:59");
        assert_eq!(shown(TimeFormat::Date, winter), "2026-02-01");
        let summer = "2026-07-31T08:09:10Z";
        assert_eq!(shown(TimeFormat::WithOffset, summer), "2026-07-31 10:09 +02:00");
        let utc = in_zone(TimeFormat::WithOffset, summer.parse().expect("a time"), TimeZone::UTC);
        assert_eq!(utc, "2026-07-31 08:09 +00:00");
    }
}
