//! Pages of other origins (the Fetch standard's CORS protocol): which may read answers, errors
//! included. Off where no origin is configured: then nothing here shows in any answer.

use poem::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use poem::{Request, Response};

use super::pages;
use crate::config::CorsConfig;

/// What pages may send: what is supported there. HEAD and POST browsers send without asking; they
/// are told what is wrong with it.
const TO_PAGES: HeaderValue = HeaderValue::from_static("GET, HEAD");
const TO_OPERATIONS: HeaderValue = HeaderValue::from_static("GET");
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "X-API-Key, X-Request-Id, Accept, Accept-Encoding, Cache-Control, Content-Type, \
     If-None-Match, Pragma, Traceparent, Tracestate",
);

/// What pages may read, besides what they always may.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "Age, Allow, Cache-Status, ETag, Link, RateLimit, RateLimit-Policy, Retry-After, \
     WWW-Authenticate, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id",
);

/// Seconds that a browser may keep the answer to a preflight: as long as any does.
const KEPT: HeaderValue = HeaderValue::from_static("7200");

const ANY: HeaderValue = HeaderValue::from_static("*");
const BY_ORIGIN: HeaderValue = HeaderValue::from_static("Origin");
const BY_PREFLIGHT: HeaderValue =
    HeaderValue::from_static("Access-Control-Request-Method, Access-Control-Request-Headers");

/// See the module.
#[derive(Debug)]
pub(super) enum Cors {
    Off,
    Any,
    Listed(Vec<HeaderValue>),
}

/// Who asks, and whether to be allowed something first.
#[derive(Debug, Default)]
pub(super) struct Asked {
    origin: Option<HeaderValue>,
    /// The methods to be allowed, where this is a preflight.
    preflight: Option<HeaderValue>,
}

impl Cors {
    pub(super) fn new(config: &CorsConfig) -> Self {
        if config.is_any() {
            return Self::Any;
        }
        let origins = config.origins.iter().filter_map(|origin| HeaderValue::try_from(origin).ok());
        match origins.collect::<Vec<_>>() {
            origins if origins.is_empty() => Self::Off,
            origins => Self::Listed(origins),
        }
    }

    /// To be asked before a request is answered.
    pub(super) fn of(&self, request: &Request) -> Asked {
        if matches!(self, Self::Off) {
            return Asked::default();
        }
        let fields = request.headers();
        match fields.get(header::ORIGIN) {
            Some(origin) => {
                let is_preflight = *request.method() == Method::OPTIONS
                    && fields.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
                let preflight = is_preflight.then(|| methods(request.uri().path()));
                Asked { origin: Some(origin.clone()), preflight }
            }
            None => Asked::default(),
        }
    }

    /// The answer to a preflight of an origin that is allowed: it needs no key, counts nowhere,
    /// and is given for all paths, so that pages can read why the request itself is refused.
    pub(super) fn preflight(&self, asked: &Asked) -> Option<Response> {
        self.allowed(asked)?;
        let methods = asked.preflight.clone()?;
        let mut response = Response::builder().status(StatusCode::NO_CONTENT).finish();
        let fields = response.headers_mut();
        fields.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        fields.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
        fields.insert(header::ACCESS_CONTROL_MAX_AGE, KEPT);
        fields.append(header::VARY, BY_PREFLIGHT);
        Some(response)
    }

    /// What every answer carries.
    pub(super) fn add(&self, asked: &Asked, fields: &mut HeaderMap) {
        // Also where there is no origin, or another one: what is kept of it is not for all.
        if matches!(self, Self::Listed(_)) {
            fields.append(header::VARY, BY_ORIGIN);
        }
        let Some(allowed) = self.allowed(asked) else { return };
        fields.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        if asked.preflight.is_none() {
            fields.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
        }
    }

    /// Who is allowed, in words for the browser. Any origin is so without being asked: kept
    /// answers then are for all.
    fn allowed(&self, asked: &Asked) -> Option<HeaderValue> {
        match (self, &asked.origin) {
            (Self::Off, _) => None,
            (Self::Any, _) => Some(ANY),
            (Self::Listed(origins), Some(origin)) => {
                origins.contains(origin).then(|| origin.clone())
            }
            (Self::Listed(_), None) => None,
        }
    }
}

fn methods(path: &str) -> HeaderValue {
    let is_page = pages::paths().any(|page| page == path);
    if is_page { TO_PAGES } else { TO_OPERATIONS }
}
