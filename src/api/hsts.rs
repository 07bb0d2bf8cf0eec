//! `Strict-Transport-Security` (RFC 6797): browsers then use HTTPS only. It is sent only where the
//! client is known to use HTTPS, since over plain HTTP anybody could have sent it.

use poem::Request;
use poem::http::{HeaderMap, HeaderValue, header};

use crate::config::ServerConfig;
use crate::http::trusted_proxies::TrustedProxies;

/// The header of this listener.
pub(super) struct Hsts {
    /// `None` if it is not configured.
    value: Option<HeaderValue>,
    proxies: TrustedProxies,
}

impl Hsts {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let seconds = Some(config.hsts_max_age_s).filter(|seconds| *seconds > 0);
        // Digits are always valid.
        let value = seconds.and_then(|seconds| format!("max-age={seconds}").try_into().ok());
        Self { value, proxies: TrustedProxies::new(config.trusted_proxies.clone()) }
    }

    /// Whether the response to this request has the header.
    pub(super) fn applies_to(&self, request: &Request) -> bool {
        self.value.is_some() && self.proxies.is_https(request)
    }

    pub(super) fn add_header(&self, headers: &mut HeaderMap) {
        headers.extend(self.value.clone().map(|value| (header::STRICT_TRANSPORT_SECURITY, value)));
    }
}
