//! How long a server asks its clients to wait (RFC 9110, section 10.2.3).

use std::time::Duration;

use hyper::{HeaderMap, Response, StatusCode, header};

use crate::registry::Timestamp;

/// The pause after a 429 that says nothing about it.
const DEFAULT_PAUSE: Duration = Duration::from_secs(5);
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(86_400);

/// How long to wait before the request is repeated, from 1 s to a day: after 429, and after 503 with
/// `Retry-After`. `None` after every other response.
pub(super) fn requested_pause<T>(response: &Response<T>) -> Option<Duration> {
    let retry_after = retry_after(response.headers());
    let pause = match response.status() {
        StatusCode::TOO_MANY_REQUESTS => Some(retry_after.unwrap_or(DEFAULT_PAUSE)),
        StatusCode::SERVICE_UNAVAILABLE => retry_after,
        _ => None,
    };
    pause.map(|pause| pause.clamp(MIN_PAUSE, MAX_PAUSE))
}

/// The header `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a long time.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(status: u16, retry_after: Option<&str>) -> Option<Duration> {
        let mut response = Response::builder().status(status);
        if let Some(value) = retry_after {
            response = response.header(header::RETRY_AFTER, value);
        }
        requested_pause(&response.body(()).expect("a response"))
    }

    #[test]
    fn the_pause_is_given_in_seconds_or_by_a_date() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (retry_after, expected) in [
            (Some("7"), 7),
            (Some(" 30 "), 30),
            (Some("0"), 1),
            (Some("99999999999999999999999"), 86_400),
            (Some("Sun, 06 Nov 1994 08:49:37 GMT"), 1),
            (Some("Sat, 01 Jan 2050 00:00:00 GMT"), 86_400),
            (Some("soon"), 5),
            (Some("-1"), 5),
            (None, 5),
        ] {
            assert_eq!(pause(429, retry_after), seconds(expected), "{retry_after:?}");
        }
        assert_eq!(pause(503, Some("7")), seconds(7));
        assert_eq!((pause(503, None), pause(503, Some("soon"))), (None, None));
        assert_eq!((pause(400, Some("7")), pause(200, Some("7"))), (None, None));
        let soon = Timestamp::now() + jiff::SignedDuration::from_secs(100);
        let date = jiff::fmt::rfc2822::DateTimePrinter::new();
        let date = date.timestamp_to_rfc9110_string(&soon).expect("a date");
        let found = pause(429, Some(&date)).expect("a pause");
        assert!((90..=100).contains(&found.as_secs()), "{date}: {found:?}");
    }
}
