//! The public listener: every route, and what surrounds them all. From the outside in:
//! request id, log, other origins' pages, errors as JSON; route; then [`super::guard`].

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use poem::http::Method;
use poem::{Endpoint, IntoResponse, PathPattern, Request, Response, Result, Route};

use super::cors::Cors;
use super::error::{ApiError, Cause, refusal};
use super::guard::{AccessControl, AuthenticatedKey, guarded};
use super::headers;
use super::pages::{self, Pages};
use super::request_log::{RequestIds, error_chain};
use crate::cache::{ReadThrough, Source};
use crate::config::CorsConfig;
use crate::ops::{Metrics, RequestLabels, RequestMetrics, RequestTrace, Traces, method_word};
use crate::server::Handler;

/// What the public listener serves.
pub struct PublicApi {
    routes: Route,
    requests: RequestMetrics,
    cors: Cors,
    request_ids: RequestIds,
    watch: Observability,
}

/// How requests are watched.
pub struct Observability {
    /// Counts them.
    pub metrics: Arc<Metrics>,
    /// Follows them.
    pub traces: Traces,
}

impl PublicApi {
    /// The operations behind `gate`, and the `pages`.
    pub fn new(
        reads: ReadThrough,
        gate: AccessControl,
        pages: Pages,
        watch: Observability,
    ) -> Self {
        let (mut routes, mut templates) = (pages.add_to(Route::new()), Vec::new());
        for (path, operation) in guarded(super::operations(reads), Arc::new(gate)) {
            templates.push(template(&path).to_owned());
            routes = routes.at(path, operation);
        }
        templates.extend(pages::paths().map(str::to_owned));
        let requests = watch.metrics.requests(templates);
        let (cors, request_ids) = (Cors::Off, RequestIds::default());
        Self { routes, requests, cors, request_ids, watch }
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
        let trace = self.watch.traces.begin(request.headers());
        let method = request.method().clone();
        let asked = self.cors.of(&request);
        let mut response = match self.cors.preflight(&asked) {
            Some(response) => response,
            // To the framework, what is between two slashes is a path parameter too.
            None if request.uri().path().contains("//") => ApiError::UnknownRoute.into_response(),
            None => answered(AssertUnwindSafe(self.routes.call(request)).catch_unwind().await),
        };
        self.cors.add(&asked, response.headers_mut());
        let labels = labels(&method, &response);
        let took = begun.elapsed();
        self.watch.metrics.request(&self.requests, labels, took);
        let id_text = id.to_str().unwrap_or_default();
        log(labels, &response, took, id_text, &trace);
        trace.end(labels, id_text);
        response.headers_mut().insert(headers::REQUEST_ID, id);
        response
    }
}

/// The answer for whatever came out, a panic included.
fn answered(outcome: std::thread::Result<Result<Response>>) -> Response {
    match outcome {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => refusal(error),
        Err(_) => ApiError::Internal.into_response(),
    }
}

/// What a request is counted and logged under: from here, never from the caller.
fn labels<'a>(method: &'a Method, response: &'a Response) -> RequestLabels<'a> {
    RequestLabels {
        route: response.data::<PathPattern>().map(|pattern| template(&pattern.0)),
        method,
        status: response.status().as_u16(),
        source: response
            .data::<AuthenticatedKey>()
            .and_then(|passed| passed.source)
            .map(Source::as_str),
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
fn log(
    labels: RequestLabels<'_>,
    response: &Response,
    took: Duration,
    request_id: &str,
    trace: &RequestTrace,
) {
    tracing::info!(
        target: "gene_registry::request",
        method = method_word(labels.method),
        route = labels.route.unwrap_or("unknown"),
        status = labels.status,
        ms = took.as_secs_f64() * 1000.0,
        cache = labels.source,
        key = response.data::<AuthenticatedKey>().map(|passed| passed.key.prefix.as_str()),
        request_id,
        trace_id = trace.id().map(tracing::field::display),
        cause = response.data::<Cause>().map(|cause| error_chain(&*cause.0)),
        "request"
    );
}
