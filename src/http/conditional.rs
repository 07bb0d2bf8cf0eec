//! Conditional requests and content coding: the headers `If-None-Match` and `Accept-Encoding`
//! (RFC 9110, sections 8.8.3, 12.5.3 and 13.1.2).

use poem::http::{HeaderMap, header};
use poem::web::headers::{ETag, HeaderMapExt, IfNoneMatch};

/// Whether `If-None-Match` names the entity tag of these response headers, compared weakly.
pub(crate) fn is_not_modified(if_none_match: Option<&IfNoneMatch>, response: &HeaderMap) -> bool {
    let names_tag = |condition: &IfNoneMatch| {
        response.typed_get::<ETag>().is_some_and(|tag| !condition.precondition_passes(&tag))
    };
    if_none_match.is_some_and(names_tag)
}

/// Whether gzip is acceptable: named, or covered by `*`, with a weight above 0.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
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
    use poem::http::HeaderValue;

    use super::*;

    #[test]
    fn tags_are_found_in_lists_weak_and_strong() {
        let mut response = HeaderMap::new();
        response.insert(header::ETAG, HeaderValue::from_static("\"a\""));
        let matches = |list: &str| {
            let mut request = HeaderMap::new();
            let list = HeaderValue::from_bytes(list.as_bytes()).expect("a value");
            request.insert(header::IF_NONE_MATCH, list);
            is_not_modified(request.typed_get().as_ref(), &response)
        };
        for list in ["\"a\"", "W/\"a\"", "\"x\", \"a\"", "\"x,y\",W/\"a\" , \"z\"", "*"] {
            assert!(matches(list), "{list}");
        }
        for list in [
            "",
            "a",
            "\"b\"",
            "\"a b\"",
            "\" W/\"a\"",
            "\"a",
            "\"x\", \"aa\"",
            "\"a-gzip\"",
            "\"*\"",
            "\u{e9}",
        ] {
            assert!(!matches(list), "{list}");
        }
    }

    #[test]
    fn gzip_is_sent_only_to_clients_that_accept_it() {
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
