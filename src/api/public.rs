//! The public listener: every route, and what surrounds them all. From the outside in:
//! request id, log, other origins' pages, errors as JSON; route; method; then [`super::guard`].

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use poem::endpoint::BoxEndpoint;
use poem::http::{HeaderValue, Method};
use poem::{Endpoint, IntoResponse, PathPattern, Request, Response, Result, Route};
use poem_openapi::OpenApi;

use super::cors::Cors;
use super::error::{ApiError, Cause, refusal};
use super::guard::{Gate, Guarded};
use super::headers;
use super::pages::Pages;
use super::request_log::{RequestIds, known_method, with_sources};
use crate::cache::{ReadThrough, Source};
use crate::config::CorsConfig;
use crate::ops::{Metrics, RequestLabels};
use crate::server::Handler;
use crate::upstream::ApiKeyRecord;

/// What the public listener serves.
pub struct PublicApi {
    routes: Route,
    cors: Cors,
    request_ids: RequestIds,
    metrics: Arc<Metrics>,
}

impl PublicApi {
    /// The operations behind `gate`, and the `pages`.
    pub fn new(reads: ReadThrough, gate: Gate, pages: Pages, metrics: Arc<Metrics>) -> Self {
        let mut operations = HashMap::new();
        Guarded::new(super::operations(reads), Arc::new(gate)).add_routes(&mut operations);
        let mut routes = pages.add_to(Route::new());
        for (path, mut methods) in operations {
            if let Some(endpoint) = methods.remove(&Method::GET) {
                routes = routes.at(path, OnlyGet(endpoint));
            }
        }
        let (cors, request_ids) = (Cors::Off, RequestIds::default());
        Self { routes, cors, request_ids, metrics }
    }

    /// Pages of these origins may read answers.
    #[must_use]
    pub fn with_cors(self, config: &CorsConfig) -> Self {
        Self { cors: Cors::new(config), ..self }
    }
}

impl Handler for PublicApi {
    async fn answer(&self, request: Request) -> Response {
        let begun = Instant::now();
        let id = self.request_ids.of(request.headers());
        let method = request.method().clone();
        let asked = self.cors.of(&request);
        let mut response = match self.cors.preflight(&asked) {
            Some(response) => response,
            None => self.routed(request).await,
        };
        self.cors.add(&asked, response.headers_mut());
        let labels = labels(&method, &response);
        self.metrics.request(labels, begun.elapsed());
        log(labels, &response, &id, begun);
        response.headers_mut().insert(headers::REQUEST_ID, id);
        response
    }
}

impl PublicApi {
    async fn routed(&self, request: Request) -> Response {
        match AssertUnwindSafe(self.route(request)).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => refusal(error),
            Err(_) => ApiError::Internal.into_response(),
        }
    }

    async fn route(&self, request: Request) -> Result<Response> {
        // To the framework, what is between two slashes is a path parameter too.
        if request.uri().path().contains("//") {
            return Err(ApiError::UnknownRoute.into());
        }
        self.routes.call(request).await
    }
}

/// Keeps every method but GET from an operation: HEAD too, which would run it.
struct OnlyGet(BoxEndpoint<'static>);

impl Endpoint for OnlyGet {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        match *request.method() {
            Method::GET => self.0.call(request).await,
            _ => Err(ApiError::MethodNotAllowed { allow: "GET" }.into()),
        }
    }
}

/// What a request is counted and logged under: from here, never from the caller.
fn labels<'a>(method: &Method, response: &'a Response) -> RequestLabels<'a> {
    RequestLabels {
        route: response.data::<PathPattern>().map_or("unknown", |pattern| template(&pattern.0)),
        method: known_method(method),
        status: response.status().as_u16(),
        source: response.data::<Source>().map(|source| source.as_str()),
    }
}

/// The framework numbers the parameters of a path; people know them by name.
fn template(pattern: &str) -> &str {
    match pattern {
        "/v1/genes/:param0/phenotype" => "/v1/genes/{id}/phenotype",
        other => other,
    }
}

/// One event a request; no key, no query.
fn log(labels: RequestLabels<'_>, response: &Response, id: &HeaderValue, begun: Instant) {
    tracing::info!(
        target: "gene_registry::request",
        method = labels.method,
        route = labels.route,
        status = labels.status,
        ms = begun.elapsed().as_secs_f64() * 1000.0,
        cache = labels.source,
        key = response.data::<Arc<ApiKeyRecord>>().map(|key| key.prefix.as_str()),
        request_id = id.to_str().unwrap_or_default(),
        cause = response.data::<Cause>().map(|cause| with_sources(&*cause.0)),
        "request"
    );
}
