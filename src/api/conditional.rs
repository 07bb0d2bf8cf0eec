//! The last step of an answer: in which coding it is sent, and whether at all (RFC 9110,
//! sections 8.8.3, 12.5.3 and 13.1.2).

use poem::Response;
use poem::http::{HeaderMap, HeaderValue, StatusCode, header};

use super::headers;
use crate::cache::CacheReply;
use crate::limit::Decision;

/// What the request said about the answer it wants.
pub(super) struct Conditions {
    accepts_gzip: bool,
    has: Vec<HeaderValue>,
}

impl Conditions {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self {
            accepts_gzip: accepts_gzip(headers),
            has: headers.get_all(header::IF_NONE_MATCH).iter().cloned().collect(),
        }
    }

    /// Makes of what was found the whole answer, or a 304 if the caller has it.
    pub(super) fn apply(&self, response: &mut Response, served: &CacheReply, decision: &Decision) {
        let is_gzip = self.accepts_gzip && served.entry.is_compressible();
        let tag = served.entry.etag(is_gzip);
        *response.headers_mut() = headers::found(served, &tag, decision);
        if self.has.iter().any(|list| matches(list.as_bytes(), tag.as_str())) {
            response.set_status(StatusCode::NOT_MODIFIED);
            response.headers_mut().remove(header::CONTENT_TYPE);
        } else {
            let coded = served.entry.coded(self.accepts_gzip);
            response.set_body(coded.body);
            if coded.is_gzip {
                response.headers_mut().insert(header::CONTENT_ENCODING, headers::GZIP);
            }
        }
    }
}

/// Whether `If-None-Match` names this tag, compared weakly.
pub(super) fn matches(list: &[u8], tag: &str) -> bool {
    let Ok(list) = std::str::from_utf8(list) else { return false };
    let mut rest = list.trim();
    if rest == "*" {
        return true;
    }
    // A comma may stand inside a tag, so tags are taken one by one.
    while let Some(start) = rest.find('"') {
        let Some(length) = rest[start + 1..].find('"') else { return false };
        let end = start + length + 2;
        if rest[start..end] == *tag {
            return true;
        }
        rest = &rest[end..];
    }
    false
}

/// Whether gzip is acceptable: named, or covered by `*`, with a weight above 0.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut by_name = None;
    let mut by_star = None;
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        for item in value.to_str().unwrap_or_default().split(',') {
            let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
            let acceptable = weight(parameters) > 0.0;
            match coding.trim() {
                name if name.eq_ignore_ascii_case("gzip") => by_name = Some(acceptable),
                "*" => by_star = Some(acceptable),
                _ => {}
            }
        }
    }
    by_name.or(by_star).unwrap_or(false)
}

fn weight(parameters: &str) -> f32 {
    let weight = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse().unwrap_or(0.0))
    });
    weight.unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_in_lists_weak_and_strong() {
        for list in ["\"a\"", "W/\"a\"", "\"x\", \"a\"", "\"x,y\",W/\"a\" , \"z\"", "*", " * "] {
            assert!(matches(list.as_bytes(), "\"a\""), "{list}");
        }
        for list in ["", "a", "\"b\"", "\"a", "\"x\", \"aa\"", "\"a-gzip\"", "\"*\"", "\u{e9}"] {
            assert!(!matches(list.as_bytes(), "\"a\""), "{list}");
        }
    }

    #[test]
    fn gzip_is_sent_only_to_whoever_accepts_it() {
        let accepts = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts_gzip(&headers)
        };
        assert!(!accepts_gzip(&HeaderMap::new()));
        for yes in ["gzip", "GZip", "br, gzip;q=0.5", "*", "br;q=1, *;q=0.1", "gzip ; q=1"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip;q=0.0, *", "*;q=0", "gzip;q=x", "xgzip"] {
            assert!(!accepts(no), "{no}");
        }
    }
}
