//! Addresses that secrets may be sent to.

use std::fmt;

use thiserror::Error;
use url::{Host, Url};

/// Where the control API begins below a server's address.
const CONTROL: &str = "/control/v1";

/// The address of a server's control listener: `https://…`, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) struct ServerAddress(String);

/// Why nothing is sent to an address. What was given is not repeated: it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(in crate::cli) enum UnfitAddress {
    #[error("it is no URL; expected one such as https://registry.example.org:8081")]
    NoUrl,
    #[error(
        "it must begin with https:// (http:// is for this machine alone: 127.0.0.1, [::1], \
         localhost), for what is sent there is secret"
    )]
    NotSafe,
    #[error("it must hold no user, password, query or fragment")]
    TooMuch,
}

impl ServerAddress {
    /// Judges an address as typed. The API's own path at its end is cut off.
    pub(in crate::cli) fn parse(typed: &str) -> Result<Self, UnfitAddress> {
        let url = fit(typed)?;
        if url.query().is_some() {
            return Err(UnfitAddress::TooMuch);
        }
        let text = url.as_str().trim_end_matches('/');
        Ok(Self(text.strip_suffix(CONTROL).unwrap_or(text).trim_end_matches('/').to_owned()))
    }

    pub(in crate::cli) fn as_str(&self) -> &str {
        &self.0
    }

    /// The address of something of the control API, such as `/whoami`.
    pub(super) fn control(&self, path: &str) -> String {
        format!("{}{CONTROL}{path}", self.0)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A URL that secrets may be sent to: over TLS, or not leaving this machine.
pub(super) fn fit(text: &str) -> Result<Url, UnfitAddress> {
    let url = Url::parse(text.trim()).map_err(|_| UnfitAddress::NoUrl)?;
    let is_here = match url.host() {
        None => return Err(UnfitAddress::NoUrl),
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
    };
    if url.scheme() != "https" && !(url.scheme() == "http" && is_here) {
        return Err(UnfitAddress::NotSafe);
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(UnfitAddress::TooMuch);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_servers_have_equal_addresses() {
        for (typed, address) in [
            ("https://Registry.example.org", "https://registry.example.org"),
            ("https://registry.example.org:443/", "https://registry.example.org"),
            ("https://registry.example.org/control/v1/", "https://registry.example.org"),
            ("https://registry.example.org/a/control/v1", "https://registry.example.org/a"),
            (" http://127.0.0.1:8081/ ", "http://127.0.0.1:8081"),
            ("http://localhost:8081", "http://localhost:8081"),
            ("http://[::1]:8081", "http://[::1]:8081"),
        ] {
            let parsed = ServerAddress::parse(typed);
            assert_eq!(parsed.as_ref().map(ServerAddress::as_str), Ok(address), "{typed}");
        }
    }

    #[test]
    fn nothing_secret_goes_where_others_can_read_it() {
        for (typed, fault) in [
            ("http://registry.example.org", UnfitAddress::NotSafe),
            ("http://localhost.example.org", UnfitAddress::NotSafe),
            ("http://127.0.0.1.example.org", UnfitAddress::NotSafe),
            ("http://10.0.0.1", UnfitAddress::NotSafe),
            ("http://0.0.0.0:8081", UnfitAddress::NotSafe),
            ("ftp://localhost/", UnfitAddress::NotSafe),
            ("https://user:pass@registry.example.org", UnfitAddress::TooMuch),
            ("https://registry.example.org/?token=x", UnfitAddress::TooMuch),
            ("registry.example.org", UnfitAddress::NoUrl),
            ("registry:8081", UnfitAddress::NoUrl),
            ("", UnfitAddress::NoUrl),
        ] {
            assert_eq!(ServerAddress::parse(typed), Err(fault), "{typed}");
        }
    }
}
