//! Headers of the operations' responses: entity tag, caching, cache status and rate limit.

use std::sync::LazyLock;

use poem::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::cache::{CacheReply, Source};
use crate::http::header_text::{HeaderText, number};
use crate::http::headers::{JSON, REQUEST_ID};
use crate::limit::{Decision, WINDOW};
use crate::server::NOSNIFF;

pub(super) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

const VARY: HeaderValue = HeaderValue::from_static("X-API-Key, Accept-Encoding");

/// Longest time, in seconds, for which a client may use a response without a new request.
const CLIENT_MAX_AGE_S: u64 = 30;

/// The rate limit's headers except [`X_RATELIMIT_RESET`], in the order in which their values are
/// written: those of draft-ietf-httpapi-ratelimit-headers and their older equivalents.
const RATE_LIMIT: [HeaderName; 4] =
    [RATELIMIT_POLICY, RATELIMIT, X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING];

/// The headers of a successful response in a fixed order, so that the names are hashed once and not
/// for each response. [`success_headers`] sets all empty values but the request id's.
static SUCCESS_TEMPLATE: LazyLock<HeaderMap> = LazyLock::new(|| {
    const UNSET: HeaderValue = HeaderValue::from_static("");
    let ready = [header::ETAG, header::LINK, header::AGE, X_RATELIMIT_RESET].into_iter();
    let written = [header::CACHE_CONTROL, CACHE_STATUS].into_iter().chain(RATE_LIMIT);
    let first = ready.chain(written).map(|name| (name, UNSET));
    let last = [(header::CONTENT_TYPE, JSON), (header::VARY, VARY), (REQUEST_ID, UNSET)];
    // The server adds it to other responses. Here, the map need not grow for it.
    first.chain(last).chain([(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF)]).collect()
});

/// Adds the header that every response of the operations carries: it depends on the key.
pub(super) fn add_vary(headers: &mut HeaderMap) {
    headers.insert(header::VARY, VARY);
}

/// Builds the headers of a 200 or 304: representation, caching, cache status (RFC 9110, 9111,
/// 9211) and rate limit. The caller adds `Content-Encoding` and `X-Request-Id`.
pub(super) fn success_headers(
    served: &CacheReply,
    tag: HeaderValue,
    decision: &Decision,
) -> HeaderMap {
    let mut text = HeaderText::default();
    write_cache(&mut text, served);
    write_rate_limit(&mut text, decision);
    let mut headers = SUCCESS_TEMPLATE.clone();
    let mut fields = headers.values_mut();
    let ready = [
        tag,
        served.entry.link.clone(),
        number(served.age.as_secs()),
        number(decision.reset_seconds()),
    ];
    // Zipped in this order, since a zip advances its first iterator once more than its second.
    for (ready, field) in ready.into_iter().zip(&mut fields) {
        *field = ready;
    }
    text.fill(fields);
    if served.entry.link.is_empty() {
        headers.remove(header::LINK);
    }
    headers
}

fn write_cache(text: &mut HeaderText, served: &CacheReply) {
    let age = served.age.as_secs();
    let ttl = remaining_seconds(served);
    // `Age` counts from the read, and so does `max-age`: the remaining lifetime is added to it.
    let may_be_cached = ttl > 0
        && !matches!(
            served.source,
            Source::Unconfirmed | Source::StaleIfError | Source::StaleIfBusy
        );
    let remaining = u64::try_from(ttl).unwrap_or(0).min(CLIENT_MAX_AGE_S);
    let max_age = if may_be_cached { age + remaining } else { 0 };
    text.text("private, max-age=").number(max_age).end();
    write_cache_status(text, served.source, ttl);
}

fn write_cache_status(text: &mut HeaderText, source: Source, ttl: i64) {
    let detail = match source {
        Source::Local => "local",
        Source::Shared => "shared",
        Source::Unconfirmed => "unconfirmed",
        Source::Upstream { collapsed: false } => return text.text("gene-registry; fwd=miss").end(),
        Source::Upstream { collapsed: true } => {
            return text.text("gene-registry; fwd=miss; collapsed").end();
        }
        Source::StaleIfError => {
            return text.text("gene-registry; fwd=stale; fwd-status=502").end();
        }
        Source::StaleIfBusy => return text.text("gene-registry; fwd=stale; fwd-status=503").end(),
    };
    let sign = if ttl < 0 { "-" } else { "" };
    text.text("gene-registry; hit; ttl=").text(sign).number(ttl.unsigned_abs());
    text.text("; detail=").text(detail).end();
}

/// Whole seconds for which the response stays fresh, rounded down; negative as soon as it is stale.
fn remaining_seconds(served: &CacheReply) -> i64 {
    let whole = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match served.fresh.checked_sub(served.age) {
        Some(remaining) if !remaining.is_zero() => whole(remaining.as_secs()),
        _ => {
            let past = served.age.saturating_sub(served.fresh);
            let started = u64::from(past.subsec_nanos() > 0);
            -whole(past.as_secs() + started).max(1)
        }
    }
}

/// Adds the rate limit's headers to a response that [`success_headers`] did not build.
pub(super) fn add_rate_limit(headers: &mut HeaderMap, decision: &Decision) {
    let mut text = HeaderText::default();
    write_rate_limit(&mut text, decision);
    headers.extend(RATE_LIMIT.into_iter().zip(text.values::<4>()));
    headers.insert(X_RATELIMIT_RESET, number(decision.reset_seconds()));
}

fn write_rate_limit(text: &mut HeaderText, decision: &Decision) {
    let (limit, remaining) = (decision.limit.into(), decision.remaining.into());
    let (window, reset) = (WINDOW.as_secs(), decision.reset_seconds());
    text.text("\"key\";q=").number(limit).text(";w=").number(window).end();
    text.text("\"key\";r=").number(remaining).text(";t=").number(reset).end();
    text.number(limit).end();
    text.number(remaining).end();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::cache::{Entry, ResponseBody};
    use crate::registry::{Request, Timestamp};
    use crate::upstream::ReadStamp;

    fn cache_headers(source: Source, age: u64, fresh: u64) -> (String, String) {
        cache_headers_ms(source, age * 1000, fresh * 1000)
    }

    fn cache_headers_ms(source: Source, age: u64, fresh: u64) -> (String, String) {
        let request = Request::Phenotype(uuid::Uuid::nil().into());
        let body = ResponseBody { body: "{}".into(), link: HeaderValue::from_static("") };
        let stamp = ReadStamp::new(Timestamp::UNIX_EPOCH, None);
        let entry = Arc::new(Entry::new(&request, body, stamp));
        let (age, fresh) = (Duration::from_millis(age), Duration::from_millis(fresh));
        let (tag, decision) = (entry.etag(true), Decision::never());
        let headers =
            success_headers(&CacheReply { entry, source, age, fresh }, tag.clone(), &decision);
        assert_eq!(headers[header::ETAG], tag);
        assert_eq!(headers[header::AGE].to_str().expect("ASCII"), age.as_secs().to_string());
        let text = |name| headers[&name].to_str().expect("ASCII").to_owned();
        (text(header::CACHE_CONTROL), text(CACHE_STATUS))
    }

    #[test]
    fn clients_may_cache_for_at_most_30_seconds_while_fresh() {
        let (control, status) = cache_headers(Source::Local, 3, 10);
        assert_eq!(control, "private, max-age=10");
        assert_eq!(status, "gene-registry; hit; ttl=7; detail=local");
        let (control, status) = cache_headers(Source::Upstream { collapsed: true }, 0, 300);
        assert_eq!(control, "private, max-age=30");
        assert_eq!(status, "gene-registry; fwd=miss; collapsed");
        let (control, status) = cache_headers(Source::Shared, 35, 30);
        assert_eq!(control, "private, max-age=0");
        assert_eq!(status, "gene-registry; hit; ttl=-5; detail=shared");
        let (control, status) = cache_headers(Source::Unconfirmed, 3, 10);
        assert_eq!(control, "private, max-age=0");
        assert_eq!(status, "gene-registry; hit; ttl=7; detail=unconfirmed");
        let (control, status) = cache_headers(Source::StaleIfError, 500, 30);
        assert_eq!(control, "private, max-age=0");
        assert_eq!(status, "gene-registry; fwd=stale; fwd-status=502");
    }

    #[test]
    fn fractions_of_a_second_never_make_a_response_look_fresher() {
        for (age, fresh, ttl, max_age) in [
            (24_900, 25_100, 0, 0),
            (24_100, 25_900, 1, 25),
            (24_900, 26_800, 1, 25),
            (24_500, 24_500, -1, 0),
            (24_700, 24_500, -1, 0),
            (25_400, 24_300, -2, 0),
            (1_500, 300_900, 299, 31),
        ] {
            let (control, status) = cache_headers_ms(Source::Local, age, fresh);
            assert_eq!(status, format!("gene-registry; hit; ttl={ttl}; detail=local"));
            assert_eq!(control, format!("private, max-age={max_age}"), "{age} {fresh}");
        }
    }

    #[test]
    fn the_longest_values_fit() {
        let largest = Decision::of(true, u32::MAX, 0, Duration::from_secs(u64::MAX / 2));
        let mut headers = HeaderMap::new();
        add_rate_limit(&mut headers, &largest);
        assert_eq!(headers["ratelimit-policy"], r#""key";q=4294967295;w=60"#);
        assert!(!headers["ratelimit"].is_empty());
        let (_, status) = cache_headers(Source::Shared, u64::MAX / 1000, 0);
        assert_eq!(status, format!("gene-registry; hit; ttl=-{}; detail=shared", u64::MAX / 1000));
    }

    #[test]
    fn each_value_is_under_its_name() {
        let request = Request::Phenotype(uuid::Uuid::nil().into());
        let body = ResponseBody {
            body: "{}".into(),
            link: HeaderValue::from_static("<?a>; rel=\"next\""),
        };
        let stamp = ReadStamp::new(Timestamp::UNIX_EPOCH, None);
        let entry = Arc::new(Entry::new(&request, body, stamp));
        let (age, fresh) = (Duration::from_secs(70), Duration::from_secs(99));
        let (tag, source) = (entry.etag(false), Source::Local);
        let decision = Decision::of(true, 30, 7, Duration::from_millis(41_001));
        let headers =
            success_headers(&CacheReply { entry, source, age, fresh }, tag.clone(), &decision);
        for (name, value) in [
            ("content-type", "application/json"),
            ("etag", tag.to_str().expect("ASCII")),
            ("age", "70"),
            ("cache-control", "private, max-age=99"),
            ("cache-status", "gene-registry; hit; ttl=29; detail=local"),
            ("link", "<?a>; rel=\"next\""),
            ("ratelimit-policy", r#""key";q=30;w=60"#),
            ("ratelimit", r#""key";r=23;t=42"#),
            ("x-ratelimit-limit", "30"),
            ("x-ratelimit-remaining", "23"),
            ("x-ratelimit-reset", "42"),
            ("vary", "X-API-Key, Accept-Encoding"),
        ] {
            assert_eq!(headers[name], value, "{name}");
        }
        assert_eq!(headers.len(), 14, "these, the request id and what the server adds");
    }

    #[test]
    fn rate_limit_headers_by_hand() {
        let mut headers = HeaderMap::new();
        let resets_in = Duration::from_millis(41_001);
        add_rate_limit(&mut headers, &Decision::of(true, 30, 7, resets_in));
        assert_eq!(headers["ratelimit-policy"], r#""key";q=30;w=60"#);
        assert_eq!(headers["ratelimit"], r#""key";r=23;t=42"#);
        assert_eq!(headers["x-ratelimit-limit"], "30");
        assert_eq!(headers["x-ratelimit-remaining"], "23");
        assert_eq!(headers["x-ratelimit-reset"], "42");
    }
}
