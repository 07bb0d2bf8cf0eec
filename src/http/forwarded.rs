//! Parses what proxies report about a request: the header `Forwarded` (RFC 7239), and the lists in
//! `X-Forwarded-*`. Each proxy appends an entry, so the last one is that of the nearest proxy.

use std::net::{IpAddr, SocketAddr};

use poem::http::{HeaderMap, HeaderName, header};

/// One element of `Forwarded`: what one proxy reports, such as
/// `for=192.0.2.60;proto=https;host="a.example:8443"`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ForwardedElement {
    /// The peer of the proxy; `None` if it is not reported, or is hidden.
    pub(super) peer: Option<IpAddr>,
    pub(super) scheme: Option<String>,
    pub(super) host: Option<String>,
}

/// The elements of all `Forwarded` headers, in order; none if there is no such header, or a malformed
/// one, of which a client may have sent the beginning.
pub(super) fn forwarded_elements(headers: &HeaderMap) -> Vec<ForwardedElement> {
    let values = headers.get_all(header::FORWARDED).iter();
    let lists: Option<Vec<_>> = values.map(|value| parse_elements(value.to_str().ok()?)).collect();
    lists.unwrap_or_default().into_iter().flatten().collect()
}

/// The entries of all headers of this name that hold comma-separated lists, the last one first. `None`
/// for an entry that is not ASCII.
pub(super) fn entries_from_last(
    headers: &HeaderMap,
    name: HeaderName,
) -> impl Iterator<Item = Option<&str>> {
    let values = headers.get_all(name).iter().rev();
    let entries = values.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
    let entries = entries.map(<[u8]>::trim_ascii).filter(|entry| !entry.is_empty());
    entries.map(|entry| str::from_utf8(entry).ok().filter(|text| text.is_ascii()))
}

/// An address with or without port and brackets.
pub(super) fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_matches('"');
    if let Ok(address) = bare.parse() {
        return Some(address);
    }
    let socket: Result<SocketAddr, _> = bare.parse();
    let bracketed = || bare.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    socket.ok().map(|socket| socket.ip()).or_else(bracketed)
}

fn parse_elements(text: &str) -> Option<Vec<ForwardedElement>> {
    let elements = split_unquoted(text, b',')?.into_iter().map(str::trim);
    elements.filter(|element| !element.is_empty()).map(parse_element).collect()
}

/// `None` if the element is malformed, or one of the parameters that are used is given twice.
fn parse_element(text: &str) -> Option<ForwardedElement> {
    let (mut peer, mut scheme, mut host) = (None, None, None);
    let pairs = split_unquoted(text, b';')?.into_iter().map(str::trim);
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let value = unquoted(value.trim_start())?;
        let parameter = match name.trim_end().to_ascii_lowercase().as_str() {
            "for" => &mut peer,
            "proto" => &mut scheme,
            "host" => &mut host,
            _ => continue,
        };
        if parameter.replace(value).is_some() {
            return None;
        }
    }
    Some(ForwardedElement { peer: peer.and_then(|peer| parse_address(&peer)), scheme, host })
}

/// The parts between separators that are not in a quoted string (RFC 9110, section 5.6.4); `None` if
/// a quoted string does not end.
fn split_unquoted(text: &str, separator: u8) -> Option<Vec<&str>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if byte == separator && !is_quoted => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!is_quoted).then_some(parts)
}

/// The value of a token or of a quoted string. Tokens may have characters that would need quotes,
/// such as the colon of a port, which some proxies leave out.
fn unquoted(value: &str) -> Option<String> {
    let Some(quoted) = value.strip_prefix('"') else {
        let is_token = value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        return is_token.then(|| value.to_owned());
    };
    let mut characters = quoted.strip_suffix('"')?.chars();
    let mut text = String::new();
    while let Some(character) = characters.next() {
        text.push(match character {
            '\\' => characters.next()?,
            '"' => return None,
            other => other,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use poem::http::HeaderValue;

    use super::*;

    fn elements(values: &[&'static str]) -> Vec<ForwardedElement> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::FORWARDED, HeaderValue::from_static(value));
        }
        forwarded_elements(&headers)
    }

    fn element(peer: &str, scheme: &str, host: &str) -> ForwardedElement {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ForwardedElement { peer: peer.parse().ok(), scheme: text(scheme), host: text(host) }
    }

    #[test]
    fn elements_are_separated_by_commas_outside_of_quotes() {
        let cases: &[(&[&str], &[ForwardedElement])] = &[
            (&["For=1.2.3.4;PROTO=https; host=a "], &[element("1.2.3.4", "https", "a")]),
            (&["for=\"[2001:db8::1]:99\""], &[element("2001:db8::1", "", "")]),
            (&["for=\"[2001:db8::1]\";host=\"a:80\""], &[element("2001:db8::1", "", "a:80")]),
            (
                &["for=1.2.3.4:99, for=_hidden,,for=unknown"],
                &[element("1.2.3.4", "", ""), element("", "", ""), element("", "", "")],
            ),
            (
                &["for=1.1.1.1", "for=2.2.2.2"],
                &[element("1.1.1.1", "", ""), element("2.2.2.2", "", "")],
            ),
            // A comma, a semicolon and an escaped quote in quotes belong to the value.
            (&["host=\"a, for=9.9.9.9\";for=1.2.3.4"], &[element("1.2.3.4", "", "a, for=9.9.9.9")]),
            (&["host=\"a;proto=https\""], &[element("", "", "a;proto=https")]),
            (
                &[r#"host="a\", for=9.9.9.9", for=1.2.3.4"#],
                &[element("", "", "a\", for=9.9.9.9"), element("1.2.3.4", "", "")],
            ),
            (&[r#"by="\a\\";host=b"#], &[element("", "", "b")]),
            (&[";;for=1.2.3.4;"], &[element("1.2.3.4", "", "")]),
            // Parameters that are not used are not remembered.
            (&["secret=a;for=1.2.3.4;secret=b"], &[element("1.2.3.4", "", "")]),
            (&[""], &[]),
        ];
        for (values, expected) in cases {
            assert_eq!(elements(values), *expected, "{values:?}");
        }
    }

    #[test]
    fn a_malformed_header_reports_nothing() {
        for malformed in [
            "host=\"a, for=1.2.3.4",
            "host=\"a\\\", for=1.2.3.4",
            "host=a\"b, for=1.2.3.4\"",
            "host=\"a\"b, for=1.2.3.4",
            "host=a b, for=1.2.3.4",
            "host, for=1.2.3.4",
            "for=9.9.9.9;For=1.2.3.4",
            "for=_hidden;for=1.2.3.4",
            "proto=http;for=1.2.3.4;proto=https",
            "host=a;host=a",
        ] {
            assert!(elements(&["for=2.2.2.2", malformed]).is_empty(), "{malformed}");
        }
    }

    #[test]
    fn entries_come_from_the_last_header_and_its_end() {
        let mut headers = HeaderMap::new();
        let name = HeaderName::from_static("x-forwarded-for");
        for value in [&b"a, \xff"[..], b"", b" b ,,c,"] {
            headers.append(&name, HeaderValue::from_bytes(value).expect("a value"));
        }
        let entries: Vec<_> = entries_from_last(&headers, name).collect();
        assert_eq!(entries, [Some("c"), Some("b"), None, Some("a")]);
    }
}
