//! Names and values of the headers that answers carry, and the arithmetic of the cache ones.

use poem::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::cache::{EntityTag, Served, Source};
use crate::limit::{Decision, WINDOW};

pub(super) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
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

/// Headers of an answer at most, so that the map never grows: there is room for these from the
/// first one on.
pub(super) const ROOM: usize = 16;

/// What every answer of the operations carries: it depends on the key that was sent.
pub(super) fn add_vary(headers: &mut HeaderMap) {
    headers.insert(header::VARY, VARY);
}

/// What the answer is, how it was come by and how long it may be kept (RFC 9110, 9111, 9211).
pub(super) fn add_cache(headers: &mut HeaderMap, served: &Served, tag: &EntityTag) {
    headers.insert(header::ETAG, Short::default().text(tag.as_str()).value());
    let age = served.age.as_secs();
    headers.insert(header::AGE, age.into());
    let ttl = seconds_left(served);
    // Age counts from the read, so the lifetime that a client has left is added to it.
    let may_be_kept =
        ttl > 0 && !matches!(served.source, Source::StaleIfError | Source::StaleIfBusy);
    let kept = u64::try_from(ttl).unwrap_or(0).min(CLIENT_KEEPS_S);
    let max_age = if may_be_kept { age + kept } else { 0 };
    let control = Short::default().text("private, max-age=").number(max_age).value();
    headers.insert(header::CACHE_CONTROL, control);
    headers.insert(CACHE_STATUS, cache_status(served.source, ttl));
    // Made of visible ASCII; if it were not, the header would be left out.
    if let Ok(link) = HeaderValue::from_str(&served.entry.link)
        && !link.is_empty()
    {
        headers.insert(header::LINK, link);
    }
}

fn cache_status(source: Source, ttl: i64) -> HeaderValue {
    const MISS: &str = "gene-registry; fwd=miss";
    const COLLAPSED: &str = "gene-registry; fwd=miss; collapsed";
    const STALE: &str = "gene-registry; fwd=stale; fwd-status=502";
    const BUSY: &str = "gene-registry; fwd=stale; fwd-status=503";
    match source {
        Source::Local => hit(ttl, "local"),
        Source::Shared => hit(ttl, "shared"),
        Source::Upstream { collapsed: false } => HeaderValue::from_static(MISS),
        Source::Upstream { collapsed: true } => HeaderValue::from_static(COLLAPSED),
        Source::StaleIfError => HeaderValue::from_static(STALE),
        Source::StaleIfBusy => HeaderValue::from_static(BUSY),
    }
}

fn hit(ttl: i64, detail: &str) -> HeaderValue {
    let sign = if ttl < 0 { "-" } else { "" };
    let mut status = Short::default();
    status.text("gene-registry; hit; ttl=").text(sign);
    status.number(ttl.unsigned_abs()).text("; detail=").text(detail).value()
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
    let number = |number: u64| Short::default().number(number).value();
    let pair = |name, first: u64, between, second| {
        Short::default().text(name).number(first).text(between).number(second).value()
    };
    headers.insert(RATELIMIT_POLICY, pair("\"key\";q=", limit.into(), ";w=", window));
    headers.insert(RATELIMIT, pair("\"key\";r=", remaining.into(), ";t=", reset));
    headers.insert(X_RATELIMIT_LIMIT, number(limit.into()));
    headers.insert(X_RATELIMIT_REMAINING, number(remaining.into()));
    headers.insert(X_RATELIMIT_RESET, number(reset));
}

/// A new request's identifier.
pub(super) fn request_id(beginning: u64, number: u64) -> HeaderValue {
    Short::default().hexadecimal(beginning, 16).text("-").hexadecimal(number, 1).value()
}

/// A short value of visible ASCII, put together on the stack: it then takes one allocation, of its
/// very length. By hand, for the formatting machinery costs more than all of the rest of a header,
/// and each answer has a dozen.
struct Short {
    bytes: [u8; Self::MOST],
    length: usize,
}

impl Default for Short {
    fn default() -> Self {
        Self { bytes: [0; Self::MOST], length: 0 }
    }
}

impl Short {
    /// More than any value above; what is beyond it would be left out.
    const MOST: usize = 80;

    fn text(&mut self, text: &str) -> &mut Self {
        self.add(text.as_bytes())
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.digits::<10>(number, 1)
    }

    /// With `least` digits at least.
    fn hexadecimal(&mut self, number: u64, least: usize) -> &mut Self {
        self.digits::<16>(number, least)
    }

    fn digits<const BASE: u64>(&mut self, number: u64, least: usize) -> &mut Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let (mut digits, mut begin, mut rest) = ([b'0'; 20], 20, number);
        while rest > 0 || begin > 20 - least {
            begin -= 1;
            digits[begin] = DIGITS[(rest % BASE) as usize];
            rest /= BASE;
        }
        self.add(&digits[begin..])
    }

    fn add(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.length + bytes.len();
        debug_assert!(end <= Self::MOST, "{bytes:?}");
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
            self.length = end;
        }
        self
    }

    fn value(&self) -> HeaderValue {
        let value = HeaderValue::from_bytes(&self.bytes[..self.length]);
        value.unwrap_or(HeaderValue::from_static(""))
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
        let (tag, mut headers) = (entry.etag(true), HeaderMap::new());
        add_cache(&mut headers, &Served { entry, source, age, fresh }, &tag);
        assert_eq!(headers[header::ETAG], *tag.as_str());
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
    fn the_longest_values_fit() {
        let most = Decision::of(true, u32::MAX, 0, Duration::from_secs(u64::MAX / 2));
        let mut headers = HeaderMap::new();
        add_rate_limit(&mut headers, &most);
        assert_eq!(headers["ratelimit-policy"], r#""key";q=4294967295;w=60"#);
        assert!(!headers["ratelimit"].is_empty());
        assert!(!cache_status(Source::Shared, i64::MIN).is_empty());
        let id = request_id(u64::MAX, u64::MAX);
        assert_eq!(id, "ffffffffffffffff-ffffffffffffffff");
        assert_eq!(request_id(0xab, 0), "00000000000000ab-0");
        assert_eq!(Short::default().number(u64::MAX).value(), u64::MAX.to_string());
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
