//! What is believed of the headers of proxies.

use poem::http::HeaderValue;

use super::*;

type Header = (&'static str, &'static str);

/// A prefix one byte too long.
const LONG: &str = match std::str::from_utf8(&LONG_BYTES) {
    Ok(text) => text,
    Err(_) => "",
};
const LONG_BYTES: [u8; 256] = {
    let mut bytes = [b'a'; 256];
    bytes[0] = b'/';
    bytes
};

/// The address reported by these headers of a trusted peer, with `Host: inner:8080`.
fn reported(headers: &[Header]) -> Option<String> {
    trusted().reported_address(&header_map(headers), Some("inner:8080"))
}

fn trusted() -> TrustedProxies {
    let networks = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("a network"));
    TrustedProxies::new(networks.to_vec())
}

fn header_map(headers: &[Header]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    map
}

#[test]
fn a_source_is_the_last_address_that_is_no_trusted_proxy() {
    let (hops, forwarded) = ("x-forwarded-for", "forwarded");
    let cases: &[(&str, &[Header], &str)] = &[
        ("192.0.2.1", &[], "192.0.2.1"),
        // Only trusted proxies are believed.
        ("192.0.2.1", &[(hops, "6.6.6.6")], "192.0.2.1"),
        ("10.0.0.1", &[], "10.0.0.1"),
        ("10.0.0.1", &[(hops, "6.6.6.6")], "6.6.6.6"),
        ("::ffff:10.0.0.1", &[(hops, "6.6.6.6")], "6.6.6.6"),
        ("10.0.0.1", &[(hops, "1.1.1.1, 6.6.6.6, 10.0.0.2,fd00::1")], "6.6.6.6"),
        ("10.0.0.1", &[(hops, "1.1.1.1"), (hops, "6.6.6.6"), (hops, "10.0.0.2")], "6.6.6.6"),
        ("10.0.0.1", &[(hops, "[2001:db8::1]:99")], "2001:db8::1"),
        ("10.0.0.1", &[(hops, "6.6.6.6:99")], "6.6.6.6"),
        // All are trusted: the first is the client.
        ("10.0.0.1", &[(hops, "10.0.0.3, 10.0.0.2")], "10.0.0.3"),
        // What follows an invalid address is not known.
        ("10.0.0.1", &[(hops, "1.1.1.1, unknown, 10.0.0.2")], "10.0.0.2"),
        ("10.0.0.1", &[(hops, "1.1.1.1, x")], "10.0.0.1"),
        ("10.0.0.1", &[(forwarded, "for=1.1.1.1, for=6.6.6.6;proto=https")], "6.6.6.6"),
        ("10.0.0.1", &[(forwarded, "for=6.6.6.6, for=\"[fd00::1]:99\"")], "6.6.6.6"),
        ("10.0.0.1", &[(forwarded, "for=1.1.1.1, for=_hidden")], "10.0.0.1"),
        ("10.0.0.1", &[(forwarded, "host=\"a, for=1.1.1.1\";for=6.6.6.6")], "6.6.6.6"),
        ("10.0.0.1", &[(forwarded, "for=\"1.1.1.1, for=6.6.6.6")], "10.0.0.1"),
        // Of both headers, a proxy may have passed on one as the client sent it.
        ("10.0.0.1", &[(forwarded, "for=1.1.1.1"), (hops, "6.6.6.6")], "10.0.0.1"),
        ("10.0.0.1", &[(forwarded, "for=6.6.6.6"), (hops, "1.1.1.1, 6.6.6.6")], "6.6.6.6"),
        ("10.0.0.1", &[(forwarded, "for=\"6.6.6.6"), (hops, "6.6.6.6")], "10.0.0.1"),
        ("10.0.0.1", &[(forwarded, "for=6.6.6.6"), ("x-forwarded-proto", "https")], "10.0.0.1"),
    ];
    for (peer, headers, client) in cases {
        let found = trusted().client(peer.parse().expect("an address"), &header_map(headers));
        assert_eq!(found, client.parse::<IpAddr>().expect("an address"), "{peer} {headers:?}");
    }
}

#[test]
fn addresses_reported_by_trusted_proxies() {
    let (proto, host) = ("x-forwarded-proto", "x-forwarded-host");
    let (prefix, hops) = ("x-forwarded-prefix", "x-forwarded-for");
    let cases: &[(&[Header], Option<&str>)] = &[
        (&[], None),
        (&[(proto, "https")], Some("https://inner:8080")),
        (&[(proto, "HTTPS"), (host, "a.example")], Some("https://a.example")),
        (&[(host, "a.example")], None),
        (&[(prefix, "/genes/")], Some("/genes")),
        (&[(prefix, "/")], None),
        (&[(proto, "https"), (host, "a:8443"), (prefix, "x/y")], Some("https://a:8443/x/y")),
        (&[("forwarded", "for=1.2.3.4;Proto=https;host=a")], Some("https://a")),
        (&[("forwarded", "proto=https;host=\"[::1]:8443\"")], Some("https://[::1]:8443")),
        // Of both headers, a proxy may have passed on one as the client sent it.
        (&[("forwarded", "proto=http;host=f"), (proto, "https"), (host, "f")], None),
        (&[("forwarded", "proto=https;host=f"), (proto, "https")], Some("https://inner:8080")),
        (&[("forwarded", "proto=https;host=f"), (hops, "6.6.6.6")], None),
        (
            &[("forwarded", "for=6.6.6.6;proto=HTTPS;host=a"), (proto, "https"), (host, "a")],
            Some("https://a"),
        ),
        (&[("forwarded", "proto=https;host=f"), (prefix, "/p")], Some("https://f/p")),
        (&[("forwarded", "proto=https;host=\"a,b\"")], None),
        (&[("forwarded", "proto=https;host=\"a")], None),
        // Entries that a client invented come first.
        (&[(proto, "https, http"), (host, "evil, a"), (hops, "6.6.6.6")], Some("http://a")),
        (
            &[("forwarded", "proto=https;host=evil, for=6.6.6.6;proto=http;host=a")],
            Some("http://a"),
        ),
        // A trusted proxy behind another.
        (&[(proto, "https, http"), (host, "a, b"), (hops, "6.6.6.6, 10.0.0.9")], Some("https://a")),
        (
            &[
                ("forwarded", "for=6.6.6.6;proto=https;host=a"),
                ("forwarded", "for=\"[fd00::1]:99\";proto=http;host=b"),
            ],
            Some("https://a"),
        ),
        (&[(proto, "https"), (host, "a"), (hops, "6.6.6.6, 10.0.0.9")], Some("https://a")),
        // Invalid values count as not reported.
        (&[(proto, "gopher"), (host, "a")], None),
        (&[(proto, "https"), (host, "a/b\"")], None),
        (&[(prefix, "/a//b")], None),
        (&[(prefix, "/../x")], None),
        (&[(prefix, "/./x")], None),
        (&[(prefix, "/\"x")], None),
        (&[(prefix, "/a%2e%2e/b")], None),
        (&[(prefix, "/a%zz")], None),
        (&[(prefix, "/a?b")], None),
        (&[(prefix, "/a b")], None),
        (&[(prefix, LONG.split_at(255).0)], Some(LONG.split_at(255).0)),
        (&[(prefix, LONG)], None),
    ];
    for (headers, address) in cases {
        assert_eq!(reported(headers).as_deref(), *address, "{headers:?}");
    }
}

#[test]
fn the_scheme_is_that_of_the_client() {
    let (proto, hops) = ("x-forwarded-proto", "x-forwarded-for");
    let cases: &[(&[Header], Option<bool>)] = &[
        (&[], None),
        (&[("forwarded", "for=6.6.6.6"), (proto, "https")], None),
        (&[(proto, "HTTPS")], Some(true)),
        (&[(proto, "http")], Some(false)),
        (&[("forwarded", "for=6.6.6.6;proto=https")], Some(true)),
        (&[("forwarded", "proto=https"), (proto, "http")], None),
        // What the client itself sent comes first.
        (&[(proto, "https, http"), (hops, "6.6.6.6")], Some(false)),
        (&[(proto, "https, http"), (hops, "6.6.6.6, 10.0.0.9")], Some(true)),
    ];
    for (headers, expected) in cases {
        assert_eq!(trusted().reports_https(&header_map(headers)), *expected, "{headers:?}");
    }
}

#[test]
fn the_authority_of_a_target_replaces_host() {
    let host = header_map(&[("host", "other")]);
    for (target, headers, expected) in [
        ("/v1/openapi.json", &host, Some("other")),
        ("http://a.example:8080/v1/openapi.json", &host, Some("a.example:8080")),
        ("http://a.example/", &HeaderMap::new(), Some("a.example")),
        ("/", &HeaderMap::new(), None),
    ] {
        let target = Uri::from_static(target);
        assert_eq!(requested_host(&target, headers), expected, "{target}");
    }
}
