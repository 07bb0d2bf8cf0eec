//! The address under which a client reaches the service, as trusted proxies report it in
//! `Forwarded` (RFC 7239) or `X-Forwarded-*`.
//!
//! Each proxy appends an entry to a list. The last entry is that of the nearest proxy; the entry
//! before it is used only if the nearest proxy's peer is a trusted proxy too. Entries that a client
//! invented come earlier in the list and are never used.

use std::net::IpAddr;

use poem::Request;
use poem::http::{HeaderMap, header};

use crate::config::Network;

/// The networks of the proxies whose forwarding headers are used.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    /// Trusts proxies in these networks.
    pub fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    /// Whether no proxy is trusted.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// The address under which the client reaches the service: a URL, or only its path if scheme or
    /// host are not reported. `None` if no trusted proxy reported anything.
    pub(super) fn address(&self, request: &Request) -> Option<String> {
        let peer = request.remote_addr().as_socket_addr()?.ip();
        if !self.trusts(peer) {
            return None;
        }
        let headers = request.headers();
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).or(authority);
        self.reported_address(headers, host)
    }

    /// Whether the client uses HTTPS, as a trusted proxy reports.
    pub(super) fn is_https(&self, request: &Request) -> bool {
        let peer = request.remote_addr().as_socket_addr().map(|peer| peer.ip());
        peer.is_some_and(|peer| self.trusts(peer)) && self.reports_https(request.headers())
    }

    fn reports_https(&self, headers: &HeaderMap) -> bool {
        let report = self.by_forwarded(headers).unwrap_or_else(|| self.by_x_forwarded(headers));
        report.scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
    }

    pub(crate) fn reported_address(
        &self,
        headers: &HeaderMap,
        host: Option<&str>,
    ) -> Option<String> {
        let report = self.by_forwarded(headers).unwrap_or_else(|| self.by_x_forwarded(headers));
        let prefix = self.entry(headers, "x-forwarded-prefix").map(|prefix| normalized(&prefix));
        let prefix = prefix.filter(|prefix| is_path(prefix)).unwrap_or_default();
        let scheme = report.scheme.map(|scheme| scheme.to_ascii_lowercase());
        let scheme = scheme.filter(|scheme| ["http", "https"].contains(&scheme.as_str()));
        // A proxy that reports no host passes on the client's own header.
        let host = report.host.or_else(|| host.map(str::to_owned)).filter(|host| is_host(host));
        match (scheme, host) {
            (Some(scheme), Some(host)) => Some(format!("{scheme}://{host}{prefix}")),
            _ => (!prefix.is_empty()).then_some(prefix),
        }
    }

    fn by_forwarded(&self, headers: &HeaderMap) -> Option<ProxyReport> {
        let elements: Vec<_> =
            list(headers, "forwarded").iter().map(|text| element(text)).collect();
        let peers: Vec<_> = elements.iter().map(|element| element.peer).collect();
        let index = elements.len().checked_sub(1 + self.trusted_at_end(&peers))?;
        elements.into_iter().nth(index)
    }

    fn by_x_forwarded(&self, headers: &HeaderMap) -> ProxyReport {
        ProxyReport {
            scheme: self.entry(headers, "x-forwarded-proto"),
            host: self.entry(headers, "x-forwarded-host"),
            peer: None,
        }
    }

    /// The entry of the trusted proxy that is nearest to the client. If the list has fewer entries
    /// than `X-Forwarded-For`, some proxies do not append to it.
    fn entry(&self, headers: &HeaderMap, name: &str) -> Option<String> {
        let hops = list(headers, "x-forwarded-for");
        let peers: Vec<_> = hops.iter().map(|text| address(text)).collect();
        let entries = list(headers, name);
        let last = entries.len().checked_sub(1)?;
        entries.into_iter().nth(last.saturating_sub(self.trusted_at_end(&peers)))
    }

    /// The number of trusted proxies at the end of `peers`; the first address is always the client's.
    fn trusted_at_end(&self, peers: &[Option<IpAddr>]) -> usize {
        let trusted = peers.iter().rev().take_while(|peer| peer.is_some_and(|ip| self.trusts(ip)));
        trusted.count().min(peers.len().saturating_sub(1))
    }
}

/// What one proxy reported.
#[derive(Debug, Default)]
struct ProxyReport {
    scheme: Option<String>,
    host: Option<String>,
    peer: Option<IpAddr>,
}

/// One element of `Forwarded`: `for=192.0.2.60;proto=https;host="a.example:8443"`.
fn element(text: &str) -> ProxyReport {
    let mut report = ProxyReport::default();
    for pair in text.split(';') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "for" => report.peer = address(value),
            "proto" => report.scheme = Some(value.to_owned()),
            "host" => report.host = Some(value.to_owned()),
            _ => {}
        }
    }
    report
}

/// An address with or without port and brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.trim().trim_matches('"');
    if let Ok(address) = bare.parse() {
        return Some(address);
    }
    let socket: Result<std::net::SocketAddr, _> = bare.parse();
    let bracketed = || bare.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    socket.ok().map(|socket| socket.ip()).or_else(bracketed)
}

/// The entries of all headers of this name, in order.
fn list(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let entries = values.flat_map(|value| value.split(',')).map(|entry| entry.trim().to_owned());
    entries.filter(|entry| !entry.is_empty()).collect()
}

/// With one leading and no trailing slash; empty for the root.
fn normalized(prefix: &str) -> String {
    match prefix.trim_matches('/') {
        "" => String::new(),
        path => format!("/{path}"),
    }
}

/// Longest prefix, in bytes: each copy of the document contains it.
const MAX_PREFIX_BYTES: usize = 255;

/// Whether this is a path of unreserved characters (RFC 3986) between single slashes, without
/// `.` and `..` segments: it needs no escaping anywhere.
fn is_path(path: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    path.len() <= MAX_PREFIX_BYTES
        && !path.contains("//")
        && !path.split('/').any(|part| part == "." || part == "..")
        && path.bytes().all(is_allowed)
}

/// Whether this can be a host with or without a port: at most 255 bytes, and no character that needs
/// escaping anywhere.
pub(super) fn is_host(host: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    (1..=255).contains(&host.len()) && host.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use poem::http::{HeaderName, HeaderValue};

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
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("a network"));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        TrustedProxies::new(trusted.to_vec()).reported_address(&map, Some("inner:8080"))
    }

    #[test]
    fn the_scheme_is_that_of_the_client() {
        let trusted = TrustedProxies::new(vec!["10.0.0.0/8".parse().expect("a network")]);
        let (proto, hops) = ("x-forwarded-proto", "x-forwarded-for");
        let cases: &[(&[Header], bool)] = &[
            (&[], false),
            (&[(proto, "HTTPS")], true),
            (&[(proto, "http")], false),
            (&[("forwarded", "for=6.6.6.6;proto=https")], true),
            // What the client itself sent comes first.
            (&[(proto, "https, http"), (hops, "6.6.6.6")], false),
            (&[(proto, "https, http"), (hops, "6.6.6.6, 10.0.0.9")], true),
        ];
        for (headers, expected) in cases {
            let mut map = HeaderMap::new();
            for (name, value) in *headers {
                map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert_eq!(trusted.reports_https(&map), *expected, "{headers:?}");
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
            (&[("forwarded", "proto=http;host=f"), (proto, "https")], Some("http://f")),
            (&[("forwarded", "proto=https;host=f"), (prefix, "/p")], Some("https://f/p")),
            // Entries that a client invented come first.
            (&[(proto, "https, http"), (host, "evil, a"), (hops, "6.6.6.6")], Some("http://a")),
            (
                &[("forwarded", "proto=https;host=evil, for=6.6.6.6;proto=http;host=a")],
                Some("http://a"),
            ),
            // A trusted proxy behind another.
            (
                &[(proto, "https, http"), (host, "a, b"), (hops, "6.6.6.6, 10.0.0.9")],
                Some("https://a"),
            ),
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
}
