//! What trusted proxies report about a request, in `Forwarded` (RFC 7239) or `X-Forwarded-*`: where
//! it comes from, and the address under which the client reaches the service.
//!
//! Each proxy appends an entry to a list. The last entry is that of the nearest proxy; the entry
//! before it is used only if the nearest proxy's peer is a trusted proxy too. Entries that a client
//! invented come earlier in the list and are never used.
//!
//! Where a request has both `Forwarded` and `X-Forwarded-*`, only what both report alike is used: a
//! proxy that sets one of them may pass on the other as the client sent it.

use std::net::{IpAddr, Ipv4Addr};

use poem::Request;
use poem::http::uri::Scheme;
use poem::http::{HeaderMap, HeaderName, Uri, header};

use super::forwarded::{ForwardedElement, entries_from_last, forwarded_elements, parse_address};
use crate::config::Network;
use crate::net::RequestSource;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The networks of the proxies whose forwarding headers are used.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    /// Trusts proxies in these networks.
    pub fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    /// Whether no proxy is trusted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Where the request comes from: its peer or, behind trusted proxies, the last address that they
    /// report and that is no trusted proxy.
    pub(crate) fn source(&self, request: &Request) -> RequestSource {
        let peer = request.remote_addr().as_socket_addr().map(|address| address.ip());
        let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        RequestSource::of(self.client(peer, request.headers()))
    }

    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.trusts(peer) {
            return peer;
        }
        let by_forwarded = || {
            let elements = forwarded_elements(headers);
            Some(self.last_untrusted(peer, elements.iter().rev().map(|element| element.peer)))
        };
        let by_x_forwarded = || {
            let hops = entries_from_last(headers, X_FORWARDED_FOR);
            Some(self.last_untrusted(peer, hops.map(|entry| entry.and_then(parse_address))))
        };
        reported_alike(headers, by_forwarded, by_x_forwarded).unwrap_or(peer)
    }

    /// The first address from `peer` on, along the peers that proxies report, that is no trusted
    /// proxy; else the one after which nothing valid is reported.
    fn last_untrusted(&self, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut client = peer;
        for hop in hops {
            match hop {
                Some(address) if self.trusts(client) => client = address,
                _ => break,
            }
        }
        client
    }

    /// The address under which the client reaches the service: a URL, or only its path if scheme or
    /// host are not reported. `None` if no trusted proxy reported anything.
    pub(crate) fn address(&self, request: &Request) -> Option<String> {
        let peer = request.remote_addr().as_socket_addr()?.ip();
        if !self.trusts(peer) {
            return None;
        }
        let headers = request.headers();
        self.reported_address(headers, requested_host(request.uri(), headers))
    }

    /// Whether the client uses HTTPS: as a trusted proxy reports; else, whether the request came
    /// over TLS.
    pub(crate) fn is_https(&self, request: &Request) -> bool {
        let peer = request.remote_addr().as_socket_addr().map(|peer| peer.ip());
        let is_trusted = peer.is_some_and(|peer| self.trusts(peer));
        let reported = if is_trusted { self.reports_https(request.headers()) } else { None };
        reported.unwrap_or(*request.scheme() == Scheme::HTTPS)
    }

    /// As [`Self::is_https`], of a request from a trusted proxy; `None` if it reports no scheme.
    fn reports_https(&self, headers: &HeaderMap) -> Option<bool> {
        let (scheme, _) = self.origin(headers);
        scheme.map(|scheme| scheme == "https")
    }

    /// As [`Self::address`], of a request from a trusted proxy.
    pub(crate) fn reported_address(
        &self,
        headers: &HeaderMap,
        host: Option<&str>,
    ) -> Option<String> {
        let (scheme, reported_host) = self.origin(headers);
        let prefix = self.entry(headers, X_FORWARDED_PREFIX).map(|prefix| normalized(&prefix));
        let prefix = prefix.filter(|prefix| is_path(prefix)).unwrap_or_default();
        let scheme = scheme.filter(|scheme| ["http", "https"].contains(&scheme.as_str()));
        // A proxy that reports no host passes on the client's own header.
        let host = reported_host.or_else(|| host.map(str::to_owned)).filter(|host| is_host(host));
        match (scheme, host) {
            (Some(scheme), Some(host)) => Some(format!("{scheme}://{host}{prefix}")),
            _ => (!prefix.is_empty()).then_some(prefix),
        }
    }

    /// The scheme, in lowercase, and the host that the client used.
    fn origin(&self, headers: &HeaderMap) -> (Option<String>, Option<String>) {
        let element = self.nearest_element(headers);
        let entry = |name| self.entry(headers, name);
        let lowercase = |scheme: String| scheme.to_ascii_lowercase();
        let scheme = reported_alike(
            headers,
            || element.scheme.clone().map(lowercase),
            || entry(X_FORWARDED_PROTO).map(lowercase),
        );
        let host = reported_alike(headers, || element.host.clone(), || entry(X_FORWARDED_HOST));
        (scheme, host)
    }

    /// The element of `Forwarded` of the trusted proxy that is nearest to the client; an empty one if
    /// there is none.
    fn nearest_element(&self, headers: &HeaderMap) -> ForwardedElement {
        let elements = forwarded_elements(headers);
        let hops = elements.iter().rev().map(|element| element.peer);
        let later = self.trusted_at_end(hops);
        elements.into_iter().rev().nth(later).unwrap_or_default()
    }

    /// The entry of the trusted proxy that is nearest to the client. If the list has fewer entries
    /// than `X-Forwarded-For`, some proxies do not append to it.
    fn entry(&self, headers: &HeaderMap, name: HeaderName) -> Option<String> {
        let hops = entries_from_last(headers, X_FORWARDED_FOR);
        let trusted = self.trusted_at_end(hops.map(|entry| entry.and_then(parse_address)));
        let entry = entries_from_last(headers, name).take(trusted + 1).last()?;
        entry.map(str::to_owned)
    }

    /// The number of trusted proxies at the end of a list of peers, which is given from its end. The
    /// first address is always the client's.
    fn trusted_at_end(&self, hops: impl Iterator<Item = Option<IpAddr>>) -> usize {
        let mut hops = hops.peekable();
        let mut trusted = 0;
        while let Some(hop) = hops.next()
            && hop.is_some_and(|address| self.trusts(address))
            && hops.peek().is_some()
        {
            trusted += 1;
        }
        trusted
    }
}

/// What is reported by `Forwarded` or by `X-Forwarded-*`; of both, if both are sent, only the same.
fn reported_alike<T: PartialEq>(
    headers: &HeaderMap,
    by_forwarded: impl Fn() -> Option<T>,
    by_x_forwarded: impl Fn() -> Option<T>,
) -> Option<T> {
    let has = |name: &HeaderName| headers.contains_key(name);
    let has_x_forwarded = [X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_HOST].iter().any(has);
    match (has(&header::FORWARDED), has_x_forwarded) {
        (true, true) => by_forwarded().filter(|value| by_x_forwarded().as_ref() == Some(value)),
        (true, false) => by_forwarded(),
        (false, _) => by_x_forwarded(),
    }
}

/// The host that a request names: the authority of its target, else `Host` (RFC 9112, section 3.2.2).
fn requested_host<'a>(target: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let host = || headers.get(header::HOST)?.to_str().ok();
    target.authority().map(|authority| authority.as_str()).or_else(host)
}

/// The host and port that a request names if it came without a proxy: the port is that of the listener,
/// the host is `localhost` or an IP address, and no header is a proxy's.
pub(crate) fn direct_host(request: &Request) -> Option<&str> {
    let headers = request.headers();
    let is_of_proxy = |name: &HeaderName| {
        [header::VIA, header::FORWARDED, X_REAL_IP].contains(name)
            || name.as_str().starts_with("x-forwarded-")
    };
    let is_forwarded = headers.keys().any(is_of_proxy);
    let port = request.local_addr().as_socket_addr()?.port();
    let given = requested_host(request.original_uri(), headers)?;
    let (host, given_port) = given.rsplit_once(':')?;
    let is_ip = || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let is_own =
        given_port == port.to_string() && (host.eq_ignore_ascii_case("localhost") || is_ip());
    (is_own && !is_forwarded && is_host(given)).then_some(given)
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
pub(crate) fn is_host(host: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    (1..=255).contains(&host.len()) && host.bytes().all(is_allowed)
}

#[cfg(test)]
#[path = "trusted_proxies_tests.rs"]
mod tests;
