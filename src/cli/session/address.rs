//! Accepts only addresses that secrets may be sent to: `https://`, or this machine.

use std::fmt;

use thiserror::Error;
use url::{Host, Url};

/// The path of the control API.
const CONTROL_PATH: &str = "/control/v1";

/// The URL of a server's control listener: `https://…`, or `http://` on this machine; without a
/// trailing slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) struct ServerAddress(String);

/// Why an address is rejected. The address itself is not repeated: it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(in crate::cli) enum AddressError {
    #[error("not a URL; expected one such as https://registry.example.org:8081")]
    NotAUrl,
    #[error(
        "the address must begin with https://, because secrets are sent to it (http:// is allowed for \
         this machine only: 127.0.0.1, [::1], localhost)"
    )]
    Insecure,
    #[error("the address must not contain a user, password, query or fragment")]
    ExtraParts,
}

impl ServerAddress {
    /// Parses an address as typed. The path of the control API at its end is removed.
    pub(in crate::cli) fn parse(typed: &str) -> Result<Self, AddressError> {
        let url = parse_confidential_url(typed)?;
        if url.query().is_some() {
            return Err(AddressError::ExtraParts);
        }
        let text = url.as_str().trim_end_matches('/');
        Ok(Self(text.strip_suffix(CONTROL_PATH).unwrap_or(text).trim_end_matches('/').to_owned()))
    }

    pub(in crate::cli) fn as_str(&self) -> &str {
        &self.0
    }

    /// The URL of a path of the control API, such as `/whoami`.
    pub(super) fn control_url(&self, path: &str) -> String {
        format!("{}{CONTROL_PATH}{path}", self.0)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses a URL that secrets may be sent to: over TLS, or within this machine.
pub(super) fn parse_confidential_url(text: &str) -> Result<Url, AddressError> {
    let url = Url::parse(text.trim()).map_err(|_| AddressError::NotAUrl)?;
    let is_local = match url.host() {
        None => return Err(AddressError::NotAUrl),
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
    };
    if url.scheme() != "https" && !(url.scheme() == "http" && is_local) {
        return Err(AddressError::Insecure);
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(AddressError::ExtraParts);
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
    fn addresses_that_are_not_confidential_are_rejected() {
        for (typed, fault) in [
            ("http://registry.example.org", AddressError::Insecure),
            ("http://localhost.example.org", AddressError::Insecure),
            ("http://127.0.0.1.example.org", AddressError::Insecure),
            ("http://10.0.0.1", AddressError::Insecure),
            ("http://0.0.0.0:8081", AddressError::Insecure),
            ("ftp://localhost/", AddressError::Insecure),
            ("https://user:pass@registry.example.org", AddressError::ExtraParts),
            ("https://registry.example.org/?token=x", AddressError::ExtraParts),
            ("registry.example.org", AddressError::NotAUrl),
            ("registry:8081", AddressError::NotAUrl),
            ("", AddressError::NotAUrl),
        ] {
            assert_eq!(ServerAddress::parse(typed), Err(fault), "{typed}");
        }
    }
}
