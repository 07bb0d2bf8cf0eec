//! Where a client reaches the service, as the proxies in between tell it: `Forwarded` (RFC 7239)
//! and `X-Forwarded-*`, believed only from proxies that the operator trusts.
//!
//! Each proxy appends what it saw to a list. The last entry is the nearest proxy's; the entry
//! before it is believed only if that one saw a trusted proxy too. What a client made up stands
//! further in front and is never reached.

use std::net::IpAddr;

use poem::Request;
use poem::http::{HeaderMap, header};

use crate::config::Network;

/// Proxies whose word is taken.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    /// These networks.
    pub fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Where the client reaches the service: a URL, or, where scheme or host are not told, the
    /// path it is under. `None` if nobody who is trusted said anything.
    pub(super) fn address(&self, request: &Request) -> Option<String> {
        let peer = request.remote_addr().as_socket_addr()?.ip();
        if !self.trusts(peer) {
            return None;
        }
        let headers = request.headers();
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).or(authority);
        self.told(headers, host)
    }

    fn told(&self, headers: &HeaderMap, host: Option<&str>) -> Option<String> {
        let told = self.by_forwarded(headers).unwrap_or_else(|| self.by_x_forwarded(headers));
        let prefix = self.entry(headers, "x-forwarded-prefix").map(|prefix| tidied(&prefix));
        let prefix = prefix.filter(|prefix| is_path(prefix)).unwrap_or_default();
        let scheme = told.scheme.map(|scheme| scheme.to_ascii_lowercase());
        let scheme = scheme.filter(|scheme| ["http", "https"].contains(&scheme.as_str()));
        // A proxy that names no host passes on the client's own.
        let host = told.host.or_else(|| host.map(str::to_owned)).filter(|host| is_host(host));
        match (scheme, host) {
            (Some(scheme), Some(host)) => Some(format!("{scheme}://{host}{prefix}")),
            _ => (!prefix.is_empty()).then_some(prefix),
        }
    }

    fn by_forwarded(&self, headers: &HeaderMap) -> Option<Told> {
        let elements: Vec<_> =
            list(headers, "forwarded").iter().map(|text| element(text)).collect();
        let seen: Vec<_> = elements.iter().map(|element| element.seen).collect();
        let index = elements.len().checked_sub(1 + self.trusted_at_end(&seen))?;
        elements.into_iter().nth(index)
    }

    fn by_x_forwarded(&self, headers: &HeaderMap) -> Told {
        Told {
            scheme: self.entry(headers, "x-forwarded-proto"),
            host: self.entry(headers, "x-forwarded-host"),
            seen: None,
        }
    }

    /// The entry of the first proxy that is trusted, as seen from the client. A list that is
    /// shorter than the way is one that some proxies don't add to.
    fn entry(&self, headers: &HeaderMap, name: &str) -> Option<String> {
        let way = list(headers, "x-forwarded-for");
        let seen: Vec<_> = way.iter().map(|text| address(text)).collect();
        let entries = list(headers, name);
        let last = entries.len().checked_sub(1)?;
        entries.into_iter().nth(last.saturating_sub(self.trusted_at_end(&seen)))
    }

    /// How many of the last addresses are proxies that are trusted; one, the client's, is left.
    fn trusted_at_end(&self, seen: &[Option<IpAddr>]) -> usize {
        let trusted = seen.iter().rev().take_while(|seen| seen.is_some_and(|ip| self.trusts(ip)));
        trusted.count().min(seen.len().saturating_sub(1))
    }
}

/// What one proxy told.
#[derive(Debug, Default)]
struct Told {
    scheme: Option<String>,
    host: Option<String>,
    seen: Option<IpAddr>,
}

/// One element of `Forwarded`: `for=192.0.2.60;proto=https;host="a.example:8443"`.
fn element(text: &str) -> Told {
    let mut told = Told::default();
    for pair in text.split(';') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "for" => told.seen = address(value),
            "proto" => told.scheme = Some(value.to_owned()),
            "host" => told.host = Some(value.to_owned()),
            _ => {}
        }
    }
    told
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

/// With one slash in front and none at the end; empty for the root.
fn tidied(prefix: &str) -> String {
    match prefix.trim_matches('/') {
        "" => String::new(),
        path => format!("/{path}"),
    }
}

/// Longest prefix, in bytes: it goes into every copy of the document.
const LONGEST_PREFIX: usize = 255;

/// Unreserved characters (RFC 3986) between single slashes: nothing that has to be escaped, and no
/// part that leads elsewhere.
fn is_path(path: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    path.len() <= LONGEST_PREFIX
        && !path.contains("//")
        && !path.split('/').any(|part| part == "." || part == "..")
        && path.bytes().all(is_allowed)
}

fn is_host(host: &str) -> bool {
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

    /// What is made of headers that came from a trusted peer, with `Host: inner:8080`.
    fn told(headers: &[Header]) -> Option<String> {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("a network"));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        TrustedProxies::new(trusted.to_vec()).told(&map, Some("inner:8080"))
    }

    #[test]
    fn what_the_proxies_told_by_hand() {
        let (proto, host) = ("x-forwarded-proto", "x-forwarded-host");
        let (prefix, way) = ("x-forwarded-prefix", "x-forwarded-for");
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
            // What a client made up stands in front.
            (&[(proto, "https, http"), (host, "evil, a"), (way, "6.6.6.6")], Some("http://a")),
            (
                &[("forwarded", "proto=https;host=evil, for=6.6.6.6;proto=http;host=a")],
                Some("http://a"),
            ),
            // A trusted proxy behind another.
            (
                &[(proto, "https, http"), (host, "a, b"), (way, "6.6.6.6, 10.0.0.9")],
                Some("https://a"),
            ),
            (
                &[
                    ("forwarded", "for=6.6.6.6;proto=https;host=a"),
                    ("forwarded", "for=\"[fd00::1]:99\";proto=http;host=b"),
                ],
                Some("https://a"),
            ),
            (&[(proto, "https"), (host, "a"), (way, "6.6.6.6, 10.0.0.9")], Some("https://a")),
            // Nonsense is as if not said.
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
            assert_eq!(told(headers).as_deref(), *address, "{headers:?}");
        }
    }
}
