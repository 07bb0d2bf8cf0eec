//! CORS (the Fetch standard): which origins' pages may read responses, those of errors included.
//! Without a configured origin it is off, and no response has any of its headers.

use poem::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use poem::{Request, Response};

use super::pages::page_paths;
use crate::config::CorsConfig;

/// Allowed methods: those that are supported. Browsers send HEAD and POST without a preflight and
/// get the usual error.
const PAGE_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD");
const OPERATION_METHODS: HeaderValue = HeaderValue::from_static("GET");
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "X-API-Key, X-Request-Id, Accept, Accept-Encoding, Cache-Control, Content-Type, \
     If-None-Match, Pragma, Traceparent, Tracestate",
);

/// Response headers that pages may read besides those that the Fetch standard always allows.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "Age, Allow, Cache-Status, ETag, Link, RateLimit, RateLimit-Policy, Retry-After, \
     WWW-Authenticate, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id",
);

/// Seconds for which a browser may cache a preflight: the most that any browser accepts.
const PREFLIGHT_MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
const VARY_ORIGIN: HeaderValue = HeaderValue::from_static("Origin");
const VARY_PREFLIGHT: HeaderValue =
    HeaderValue::from_static("Access-Control-Request-Method, Access-Control-Request-Headers");

/// The origins whose pages may read responses.
#[derive(Debug)]
pub(super) enum Cors {
    Off,
    Any,
    Listed(Vec<HeaderValue>),
}

/// The origin of a request.
#[derive(Debug, Default)]
pub(super) struct CorsRequest {
    origin: Option<HeaderValue>,
    /// The methods to allow, if this is a preflight.
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

    /// Reads the request's origin, before the request is handled.
    pub(super) fn request(&self, request: &Request) -> CorsRequest {
        if matches!(self, Self::Off) {
            return CorsRequest::default();
        }
        let fields = request.headers();
        match fields.get(header::ORIGIN) {
            Some(origin) => {
                let is_preflight = *request.method() == Method::OPTIONS
                    && fields.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
                let preflight = is_preflight.then(|| methods(request.uri().path()));
                CorsRequest { origin: Some(origin.clone()), preflight }
            }
            None => CorsRequest::default(),
        }
    }

    /// The response to a preflight of an allowed origin. It needs no key, counts against no limit,
    /// and exists for every path, so that pages can read why the request itself is refused.
    pub(super) fn preflight(&self, cors_request: &CorsRequest) -> Option<Response> {
        self.allowed(cors_request)?;
        let methods = cors_request.preflight.clone()?;
        let mut response = Response::builder().status(StatusCode::NO_CONTENT).finish();
        let fields = response.headers_mut();
        fields.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        fields.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
        fields.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE);
        fields.append(header::VARY, VARY_PREFLIGHT);
        Some(response)
    }

    /// Adds the CORS headers to any response.
    pub(super) fn add_headers(&self, cors_request: &CorsRequest, fields: &mut HeaderMap) {
        // Also without an origin or for another one: a cached response must not serve all origins.
        if matches!(self, Self::Listed(_)) {
            fields.append(header::VARY, VARY_ORIGIN);
        }
        let Some(allowed) = self.allowed(cors_request) else { return };
        fields.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        if cors_request.preflight.is_none() {
            fields.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
        }
    }

    /// The value of `Access-Control-Allow-Origin`. If any origin is allowed, requests without one
    /// get it too, so that a cached response serves all origins.
    fn allowed(&self, cors_request: &CorsRequest) -> Option<HeaderValue> {
        match (self, &cors_request.origin) {
            (Self::Off, _) => None,
            (Self::Any, _) => Some(ANY_ORIGIN),
            (Self::Listed(origins), Some(origin)) => {
                origins.contains(origin).then(|| origin.clone())
            }
            (Self::Listed(_), None) => None,
        }
    }
}

fn methods(path: &str) -> HeaderValue {
    let is_page = page_paths().any(|page| page == path);
    if is_page { PAGE_METHODS } else { OPERATION_METHODS }
}
