//! What the canary sends requests to, and what it observes of a response.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use crate::net::{AuthoritiesError, HttpClient, HttpError};
use crate::registry::Timestamp;

/// A search that is soon cached: it shows whether a key is accepted, and the first genes.
pub(super) const SAMPLE: &str = "/genes?limit=3";

/// Longer than the service takes for any response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The base URL of a replica or of a balancer, without `/v1` and without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BaseUrl(Url);

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = Url::parse(text).ok().filter(|url| {
            let is_plain = url.username().is_empty() && url.password().is_none();
            matches!(url.scheme(), "http" | "https")
                && is_plain
                && url.query().is_none()
                && url.fragment().is_none()
        });
        let mut url = parsed.ok_or("expected a URL such as https://registry.example.org")?;
        let path = url.path().trim_end_matches('/');
        let prefix = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        url.set_path(&prefix);
        Ok(Self(url))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

impl BaseUrl {
    /// The URLs of all addresses of the host, in order. A certificate is not valid for an address, so
    /// with HTTPS this is the URL itself.
    pub(super) async fn each_address(&self) -> io::Result<Vec<Self>> {
        let (Some(host), Some(port), "http") =
            (self.0.host_str(), self.0.port_or_known_default(), self.0.scheme())
        else {
            return Ok(vec![self.clone()]);
        };
        let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await?;
        let addresses: BTreeSet<_> = found.map(|address| address.ip()).collect();
        let of_address = |address| {
            let mut url = self.0.clone();
            // Fails only for URLs without a host.
            url.set_ip_host(address).map_err(|()| io::ErrorKind::InvalidInput)?;
            Ok(Self(url))
        };
        addresses.into_iter().map(of_address).collect()
    }
}

/// Sends the canary's requests, and counts them.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    web: HttpClient,
    sent: Arc<AtomicU64>,
}

impl Requests {
    pub(super) fn new() -> Result<Self, AuthoritiesError> {
        Ok(Self { web: HttpClient::new(None, REQUEST_TIMEOUT)?, sent: Arc::default() })
    }

    /// How many requests were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// GET of a path below `/v1`.
    pub(super) async fn get(
        &self,
        base: &BaseUrl,
        path: &str,
        key: &HeaderValue,
    ) -> Result<Observation, HttpError> {
        let request = Request::get(format!("{base}/v1{path}")).header("x-api-key", key.clone());
        let request = request.body(Full::default())?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        let sent = Instant::now();
        let (head, body) = self.web.send(request).await?.into_parts();
        Ok(Observation {
            sent,
            received: Instant::now(),
            at: Timestamp::now(),
            status: head.status,
            headers: head.headers,
            body,
        })
    }
}

/// A response, and when it came.
#[derive(Debug, Clone)]
pub(super) struct Observation {
    pub(super) sent: Instant,
    pub(super) received: Instant,
    /// The time of this machine when it was received.
    pub(super) at: Timestamp,
    pub(super) status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Observation {
    /// The value of a header; `None` if it is absent, repeated or not text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none())?;
        value.to_str().ok()
    }

    /// All values of a header as one list, for people and where a header may be repeated.
    pub(super) fn list(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter();
        let texts: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        texts.join(", ")
    }

    /// The value of a header that is a whole number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let digits = self.header(name)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    }

    /// The body, if it is JSON.
    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// What shows that it is not a response of the API to a request with a key that is known.
    pub(super) fn foreign(&self) -> Option<String> {
        let limits = ["x-ratelimit-limit", "x-ratelimit-remaining"];
        if let Some(name) = limits.into_iter().find(|name| self.number(name).is_none()) {
            return Some(format!("status {} without a valid {name}", self.status.as_u16()));
        }
        let is_object = self.json().is_some_and(|body| body.is_object());
        (!is_object).then(|| format!("status {} without a JSON object", self.status.as_u16()))
    }
}

#[cfg(test)]
impl Observation {
    /// A response without a body that came just now.
    pub(super) fn of(status: u16, headers: &[(&str, &str)]) -> Self {
        let now = Instant::now();
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<hyper::header::HeaderName>().unwrap(), value.parse().unwrap())
        });
        Self {
            sent: now,
            received: now,
            at: Timestamp::now(),
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.collect(),
            body: Bytes::new(),
        }
    }

    pub(super) fn with_body(self, body: &str) -> Self {
        Self { body: body.to_owned().into(), ..self }
    }

    /// The same response, if it had been requested later.
    pub(super) fn later(self, by: Duration) -> Self {
        Self { sent: self.sent + by, received: self.received + by, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_may_end_in_the_version() {
        for (text, expected) in [
            ("http://api:8080", "http://api:8080"),
            ("http://api:8080/v1/", "http://api:8080"),
            ("https://registry.example.org", "https://registry.example.org"),
            ("https://example.org/registry/v1", "https://example.org/registry"),
            ("http://[::1]:80/", "http://[::1]"),
        ] {
            assert_eq!(text.parse::<BaseUrl>().map(|url| url.to_string()).as_deref(), Ok(expected));
        }
        for wrong in [
            "",
            "api:8080",
            "ftp://api",
            "http://",
            "http://u:p@api",
            "http://api?x=1",
            "http://api#x",
        ] {
            assert!(wrong.parse::<BaseUrl>().is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_host_stands_for_its_addresses_without_tls() {
        let each = |text: &str| text.parse::<BaseUrl>().unwrap();
        let plain = each("http://127.0.0.1:81/p").each_address().await.unwrap();
        assert_eq!(plain, [each("http://127.0.0.1:81/p")]);
        let v6 = each("http://[::1]:81").each_address().await.unwrap();
        assert_eq!(v6, [each("http://[::1]:81")]);
        let tls = each("https://nowhere.invalid").each_address().await.unwrap();
        assert_eq!(tls, [each("https://nowhere.invalid")]);
    }
}
