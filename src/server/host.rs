//! Checks which host a request is for: `Host` (RFC 9112, section 3.2) and, of HTTP/2 and of
//! absolute-form targets, the authority of the target (RFC 9113, section 8.3.1). Hosts in brackets are
//! IPv6 addresses; the library rejects other malformed authorities itself.

use std::net::Ipv6Addr;

use hyper::Request;
use poem::http::uri::Scheme;
use poem::http::{Version, header};
use thiserror::Error;

/// Why a request names no valid host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum InvalidHost {
    #[error("Host must be given: a host with or without a port")]
    Missing,
    #[error("Host must be given once; given more than once")]
    Repeated,
    #[error("Host must be a host, with or without a port from 0 to 65535, and without a user")]
    Malformed,
    #[error(
        "the target's authority must be a host, with or without a port from 0 to 65535, and without \
         a user"
    )]
    MalformedAuthority,
    #[error("Host must be the same as :authority, or absent")]
    Contradiction,
}

/// Checks the host of a request.
pub(super) fn check_host<B>(request: &Request<B>) -> Result<(), InvalidHost> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().map(|host| host.as_bytes());
    if hosts.next().is_some() {
        return Err(InvalidHost::Repeated);
    }
    let (uri, version) = (request.uri(), request.version());
    match host {
        None if version == Version::HTTP_11 => return Err(InvalidHost::Missing),
        // HTTP/2 needs one of the two, and none is empty.
        None | Some(b"") if version == Version::HTTP_2 && uri.authority().is_none() => {
            return Err(InvalidHost::Missing);
        }
        // Sent where the target has no authority.
        None | Some(b"") => {}
        Some(host) if split_host(host).is_none() => return Err(InvalidHost::Malformed),
        Some(_) => {}
    }
    let Some(authority) = uri.authority() else { return Ok(()) };
    let authority = authority.as_str().as_bytes();
    if split_host(authority).is_none() {
        return Err(InvalidHost::MalformedAuthority);
    }
    // On HTTP/1.1 an absolute-form target replaces `Host`, whatever that is.
    if version == Version::HTTP_2
        && let Some(host) = host
        && !are_equal(host, authority, uri.scheme())
    {
        return Err(InvalidHost::Contradiction);
    }
    Ok(())
}

/// Whether two hosts with ports are the same for this scheme: in any case, and with or without its
/// default port (RFC 3986, section 6.2.3).
fn are_equal(one: &[u8], other: &[u8], scheme: Option<&Scheme>) -> bool {
    let default = if scheme == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let normalized = |value| {
        let (host, port) = split_host(value)?;
        Some((host.to_ascii_lowercase(), port.unwrap_or(default)))
    };
    one == other || normalized(one).is_some_and(|host| normalized(other) == Some(host))
}

/// The parts of `host [ ":" [ port ] ]` (RFC 3986, section 3.2), without a user; `None` if that is
/// malformed or the host is empty.
fn split_host(value: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let length = match value.first()? {
        b'[' => {
            let end = value.iter().position(|byte| *byte == b']')?;
            let _: Ipv6Addr = str::from_utf8(&value[1..end]).ok()?.parse().ok()?;
            end + 1
        }
        _ => name_length(value)?,
    };
    let (host, port) = value.split_at_checked(length).filter(|(host, _)| !host.is_empty())?;
    match port {
        [] | b":" => Some((host, None)),
        [b':', digits @ ..] => Some((host, Some(parse_port(digits)?))),
        _ => None,
    }
}

/// The length of the name or IPv4 address before a colon or the end; `None` if it has another
/// character than those of a `reg-name`.
fn name_length(value: &[u8]) -> Option<usize> {
    let mut index = 0;
    while let Some(byte) = value.get(index) {
        index += match byte {
            b':' => break,
            b'%' if value.get(index + 1..index + 3)?.iter().all(u8::is_ascii_hexdigit) => 3,
            byte if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) => 1,
            _ => return None,
        };
    }
    Some(index)
}

fn parse_port(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0_u16, |port, digit| {
        let digit = digit.is_ascii_digit().then(|| u16::from(digit - b'0'))?;
        port.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use poem::http::request::Builder;

    use super::*;

    const VALID: [&str; 20] = [
        "a",
        "a.example",
        "A-1.Example.",
        "a_b",
        "a:0",
        "a:65535",
        "a:",
        "a:00080",
        "127.0.0.1",
        "127.0.0.1:8080",
        "[::1]",
        "[::1]:8080",
        "[::1]:",
        "[2001:DB8::1]:1",
        "[::ffff:1.2.3.4]",
        "%41.example",
        "xn--bcher-kva.example",
        "a~!$&'()*+,;=b",
        "1",
        "256.1.1.1.1",
    ];

    const MALFORMED: [&str; 34] = [
        "a b",
        "a@b",
        "@a",
        "u:p@a",
        "a:99999",
        "a:65536",
        "a:-1",
        "a:+80",
        "a:8o",
        "a:80:90",
        ":",
        ":80",
        "[::1",
        "::1",
        "[::1]80",
        "[::1]:x",
        "[::1]]",
        "[]",
        "[::g]",
        "[1.2.3.4]",
        "[v1.x]",
        "[fe80::1%25eth0]",
        "a[",
        "a]",
        "a/b",
        "a?b",
        "a#b",
        "a\\b",
        "<a>",
        "\"a\"",
        "a%",
        "a%4",
        "a%4g",
        "a:80 ",
    ];

    /// The result for a request on HTTP/1.1 with these `Host` headers.
    fn check(builder: Builder, hosts: &[&[u8]]) -> Result<(), InvalidHost> {
        let add = |builder: Builder, host: &&[u8]| builder.header(header::HOST, *host);
        check_host(&hosts.iter().fold(builder, add).body(()).expect("a request"))
    }

    fn http1(uri: &str) -> Builder {
        Request::builder().version(Version::HTTP_11).uri(uri)
    }

    fn http2(uri: &str) -> Builder {
        Request::builder().version(Version::HTTP_2).uri(uri)
    }

    #[test]
    fn http1_requests_have_one_well_formed_host() {
        for host in VALID.into_iter().chain([""]) {
            assert_eq!(check(http1("/"), &[host.as_bytes()]), Ok(()), "{host}");
        }
        for host in MALFORMED.map(str::as_bytes).into_iter().chain([&b"\xc3\xbc"[..], b"a\xff"]) {
            let text = String::from_utf8_lossy(host);
            for builder in [http1("/"), http2("/"), http1("/").version(Version::HTTP_10)] {
                assert_eq!(check(builder, &[host]), Err(InvalidHost::Malformed), "{text}");
            }
        }
        assert_eq!(check(http1("/"), &[]), Err(InvalidHost::Missing));
        assert_eq!(check(http1("http://a/"), &[]), Err(InvalidHost::Missing));
        assert_eq!(check(http1("/").version(Version::HTTP_10), &[]), Ok(()));
        for hosts in [&[][..], &[&b""[..]]] {
            assert_eq!(check(http2("/"), hosts), Err(InvalidHost::Missing), "no :authority either");
        }
        assert_eq!(check(http2("/"), &[b"a"]), Ok(()));
        for builder in [http1("/"), http2("/"), http1("/").version(Version::HTTP_10)] {
            assert_eq!(check(builder, &[b"a", b"a"]), Err(InvalidHost::Repeated));
        }
    }

    #[test]
    fn the_authority_of_a_target_is_well_formed() {
        for uri in ["http://a/", "http://a:65535/x", "http://[::1]:80/", "a:80"] {
            assert_eq!(check(http1(uri), &[b"other"]), Ok(()), "{uri}: it replaces Host");
            assert_eq!(check(http2(uri), &[]), Ok(()), "{uri}");
        }
        for uri in ["http://u@a/", "http://u:p@a/", "http://a:65536/", "http://a:x/", "http://[1]/"]
        {
            let malformed = Err(InvalidHost::MalformedAuthority);
            assert_eq!(check(http1(uri), &[b"a"]), malformed, "{uri}");
            assert_eq!(check(http2(uri), &[]), malformed, "{uri}");
        }
        assert_eq!(check(http1("http://a/"), &[b"a b"]), Err(InvalidHost::Malformed));
    }

    #[test]
    fn host_is_the_same_as_the_authority_on_http2() {
        for (uri, host) in [
            ("http://a/", "a"),
            ("http://a/", "A:80"),
            ("http://a:/", "a"),
            ("http://a:080/", "a"),
            ("https://a/", "a:443"),
            ("http://[::1]:99/", "[::1]:99"),
        ] {
            assert_eq!(check(http2(uri), &[host.as_bytes()]), Ok(()), "{uri} {host}");
        }
        for (uri, host) in [
            ("http://a/", "b"),
            ("http://a/", "a:81"),
            ("http://a/", "a:443"),
            ("https://a/", "a:80"),
            ("http://a/", "a.b"),
            ("http://a/", ""),
        ] {
            let found = check(http2(uri), &[host.as_bytes()]);
            assert_eq!(found, Err(InvalidHost::Contradiction), "{uri} {host}");
        }
    }
}
