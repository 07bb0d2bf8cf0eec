//! Names and values of the headers that answers carry, and the arithmetic of the cache ones.

use poem::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::cache::{Served, Source};
use crate::limit::{Decision, WINDOW};

pub(super) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const GZIP: HeaderValue = HeaderValue::from_static("gzip");
pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
pub(super) const CHALLENGE: HeaderValue =
    HeaderValue::from_static(r#"ApiKey realm="gene-registry""#);
const VARY: HeaderValue = HeaderValue::from_static("X-API-Key, Accept-Encoding");

/// Seconds that a client may keep an answer which is fresh for longer.
const CLIENT_KEEPS_S: u64 = 30;

/// Headers that `add_*` adds at most, so that the map grows once.
const ADDED: usize = 14;

/// What every answer of the operations carries: it depends on the key that was sent.
pub(super) fn add_vary(headers: &mut HeaderMap) {
    headers.insert(header::VARY, VARY);
}

/// What the answer is, how it was come by and how long it may be kept (RFC 9110, 9111, 9211).
pub(super) fn add_cache(headers: &mut HeaderMap, served: &Served, tag: String) {
    headers.reserve(ADDED);
    insert_text(headers, header::ETAG, tag);
    let age = served.age.as_secs();
    headers.insert(header::AGE, age.into());
    let ttl = seconds_left(served);
    // Age counts from the read, so the lifetime that a client has left is added to it.
    let may_be_kept =
        ttl > 0 && !matches!(served.source, Source::StaleIfError | Source::StaleIfBusy);
    let kept = u64::try_from(ttl).unwrap_or(0).min(CLIENT_KEEPS_S);
    let max_age = if may_be_kept { age + kept } else { 0 };
    insert_text(headers, header::CACHE_CONTROL, format!("private, max-age={max_age}"));
    let status = match served.source {
        Source::Local => format!("gene-registry; hit; ttl={ttl}; detail=local"),
        Source::Shared => format!("gene-registry; hit; ttl={ttl}; detail=shared"),
        Source::Upstream { collapsed: false } => "gene-registry; fwd=miss".to_owned(),
        Source::Upstream { collapsed: true } => "gene-registry; fwd=miss; collapsed".to_owned(),
        Source::StaleIfError => "gene-registry; fwd=stale; fwd-status=502".to_owned(),
        Source::StaleIfBusy => "gene-registry; fwd=stale; fwd-status=503".to_owned(),
    };
    insert_text(headers, CACHE_STATUS, status);
    if !served.entry.link.is_empty() {
        insert_text(headers, header::LINK, served.entry.link.to_string());
    }
}

/// Whole seconds for which an answer is still fresh, rounded down; below 0 as soon as it is stale.
fn seconds_left(served: &Served) -> i64 {
    let whole = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match served.fresh.checked_sub(served.age) {
        Some(left) if !left.is_zero() => whole(left.as_secs()),
        _ => {
            let past = served.age.saturating_sub(served.fresh);
            let begun = u64::from(past.subsec_nanos() > 0);
            -whole(past.as_secs() + begun).max(1)
        }
    }
}

/// How the key's window stands: the IETF draft's fields (draft-ietf-httpapi-ratelimit-headers)
/// and their older kin.
pub(super) fn add_rate_limit(headers: &mut HeaderMap, decision: &Decision) {
    let Decision { limit, remaining, .. } = *decision;
    let (window, reset) = (WINDOW.as_secs(), decision.reset_seconds());
    headers.reserve(ADDED);
    insert_text(headers, RATELIMIT_POLICY, format!("\"key\";q={limit};w={window}"));
    insert_text(headers, RATELIMIT, format!("\"key\";r={remaining};t={reset}"));
    headers.insert(X_RATELIMIT_LIMIT, limit.into());
    headers.insert(X_RATELIMIT_REMAINING, remaining.into());
    headers.insert(X_RATELIMIT_RESET, reset.into());
}

/// `text` is made here, of visible ASCII; if it were not, the header would be left out.
fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(text)) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::cache::{Answer, Entry};
    use crate::registry::{Request, Timestamp};
    use crate::upstream::Seen;

    fn cache_headers(source: Source, age: u64, fresh: u64) -> (String, String) {
        cache_headers_ms(source, age * 1000, fresh * 1000)
    }

    fn cache_headers_ms(source: Source, age: u64, fresh: u64) -> (String, String) {
        let request = Request::Phenotype(uuid::Uuid::nil().into());
        let answer = Answer { body: "{}".into(), link: "".into() };
        let seen = Seen::new(Timestamp::UNIX_EPOCH, None);
        let entry = Arc::new(Entry::new(&request, answer, seen));
        let (age, fresh) = (Duration::from_millis(age), Duration::from_millis(fresh));
        let mut headers = HeaderMap::new();
        add_cache(&mut headers, &Served { entry, source, age, fresh }, "\"x\"".to_owned());
        assert_eq!(headers[header::ETAG], "\"x\"");
        assert_eq!(headers[header::AGE].to_str().expect("ASCII"), age.as_secs().to_string());
        let text = |name| headers[&name].to_str().expect("ASCII").to_owned();
        (text(header::CACHE_CONTROL), text(CACHE_STATUS))
    }

    #[test]
    fn clients_keep_answers_while_fresh_but_30_seconds_at_most() {
        let (control, status) = cache_headers(Source::Local, 3, 10);
        assert_eq!(control, "private, max-age=10");
        assert_eq!(status, "gene-registry; hit; ttl=7; detail=local");
        let (control, status) = cache_headers(Source::Upstream { collapsed: true }, 0, 300);
        assert_eq!(control, "private, max-age=30");
        assert_eq!(status, "gene-registry; fwd=miss; collapsed");
        let (control, status) = cache_headers(Source::Shared, 35, 30);
        assert_eq!(control, "private, max-age=0");
        assert_eq!(status, "gene-registry; hit; ttl=-5; detail=shared");
        let (control, status) = cache_headers(Source::StaleIfError, 500, 30);
        assert_eq!(control, "private, max-age=0");
        assert_eq!(status, "gene-registry; fwd=stale; fwd-status=502");
    }

    #[test]
    fn fractions_of_a_second_never_make_an_answer_look_fresher() {
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
    fn rate_limit_headers_by_hand() {
        let mut headers = HeaderMap::new();
        let left = Duration::from_millis(41_001);
        add_rate_limit(&mut headers, &Decision::of(true, 30, 7, left));
        assert_eq!(headers["ratelimit-policy"], r#""key";q=30;w=60"#);
        assert_eq!(headers["ratelimit"], r#""key";r=23;t=42"#);
        assert_eq!(headers["x-ratelimit-limit"], "30");
        assert_eq!(headers["x-ratelimit-remaining"], "23");
        assert_eq!(headers["x-ratelimit-reset"], "42");
    }
}
