//! The handler of the public listener: all routes and the middleware around them. From the outside
//! in: request id, log and metrics, CORS, host, errors as JSON, route, [`super::access_control`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use poem::error::ResponseError;
use poem::http::{Method, StatusCode};
use poem::{Endpoint, PathPattern, Request, Response, Route};

use super::access_control::{AccessControl, AuthenticatedKey, protected};
use super::cors::Cors;
use super::error::ApiError;
use super::hsts::Hsts;
use super::operations::PublicOperations;
use super::pages::{Pages, html_paths, page_paths};
use crate::cache::{ReadThrough, Source};
use crate::config::ServerConfig;
use crate::http::error::{ErrorCause, InvalidParameter, catch_errors};
use crate::http::failure_log::FailureLog;
use crate::http::headers::REQUEST_ID;
use crate::http::request_id::RequestIds;
use crate::http::unknown_pages::UnknownPages;
use crate::ops::{
    Metrics, RequestLabels, RequestMetrics, RequestTrace, Traces, error_chain, log_ms, method_label,
};
use crate::server::{Handler, InvalidHost};

/// How the log calls a route that does not exist.
const UNKNOWN: &str = "unknown";

/// The pages to which the page of an unknown address leads.
const LINKS: &[(&str, &str)] = &[("", "Overview"), ("docs", "API docs"), ("arena", "Arena")];

/// The public API with its pages.
pub struct PublicApi {
    routes: Route,
    unknown_pages: UnknownPages,
    requests: RequestMetrics,
    cors: Cors,
    hsts: Hsts,
    request_ids: RequestIds,
    failures: FailureLog,
    observability: Observability,
}

/// How requests are measured.
pub struct Observability {
    /// Counts and times requests.
    pub metrics: Arc<Metrics>,
    /// Traces requests.
    pub traces: Traces,
}

impl PublicApi {
    /// The operations behind `access_control`, and the `pages` without it. `config` has the origins
    /// whose pages may read responses, and what browsers are told of HTTPS.
    pub fn new(
        reads: ReadThrough,
        access_control: AccessControl,
        pages: Pages,
        config: &ServerConfig,
        observability: Observability,
    ) -> Self {
        let (mut routes, mut templates) = (pages.add_to(Route::new()), Vec::new());
        let operations = PublicOperations(reads);
        for (path, operation) in protected(operations, Arc::new(access_control)) {
            templates.push(template(&path).to_owned());
            routes = routes.at(path, operation);
        }
        let operations = templates.len();
        templates.extend(page_paths().map(|path| template(path).to_owned()));
        let requests = observability.metrics.requests(templates, operations);
        let (cors, hsts) = (Cors::new(&config.cors), Hsts::new(config));
        let (request_ids, failures) = (RequestIds::default(), FailureLog::default());
        let unknown_pages = UnknownPages::new(html_paths(), "/v1/", LINKS);
        Self { routes, unknown_pages, requests, cors, hsts, request_ids, failures, observability }
    }
}

impl Handler for PublicApi {
    async fn handle(&self, request: Request, host: Result<(), InvalidHost>) -> Response {
        let started = Instant::now();
        let id = self.request_ids.of(request.headers());
        let trace = self.observability.traces.begin(request.headers());
        let method = request.method().clone();
        let cors_request = self.cors.request(&request);
        let has_hsts = self.hsts.applies_to(&request);
        let page = self.unknown_pages.request(&request);
        let mut response = match host {
            Err(error) => ApiError::from(InvalidParameter::from(error)).as_response(),
            Ok(()) => match self.cors.preflight(&cors_request) {
                Some(response) => response,
                // The framework would accept the empty text between two slashes as a path parameter.
                None if request.uri().path().contains("//") => ApiError::UnknownRoute.as_response(),
                None => catch_errors::<ApiError>(self.routes.call(request)).await,
            },
        };
        if let Some(page) = page
            && response.status() == StatusCode::NOT_FOUND
        {
            response = self.unknown_pages.response::<ApiError>(&page);
        }
        self.cors.add_headers(&cors_request, response.headers_mut());
        let labels = labels(&method, &response);
        let took = started.elapsed();
        self.observability.metrics.request(&self.requests, labels, took);
        let id_text = id.to_str().unwrap_or_default();
        log(labels, &response, took, id_text, &trace);
        self.failures.record(&response, labels.route.unwrap_or(UNKNOWN), id_text);
        trace.end(labels, id_text);
        response.headers_mut().insert(REQUEST_ID, id);
        if has_hsts {
            self.hsts.add_header(response.headers_mut());
        }
        response
    }
}

/// The labels of a request in metrics and log. No value of the caller becomes a label.
fn labels<'a>(method: &'a Method, response: &'a Response) -> RequestLabels<'a> {
    RequestLabels {
        route: response.data::<PathPattern>().map(|pattern| template(&pattern.0)),
        method,
        status: response.status().as_u16(),
        source: response
            .data::<AuthenticatedKey>()
            .and_then(|authenticated| authenticated.source)
            .map(Source::as_str),
    }
}

/// The route as it is documented; the framework numbers the parameters of a path.
fn template(pattern: &str) -> &str {
    match pattern {
        "/v1/genes/:param0/phenotype" => "/v1/genes/{id}/phenotype",
        "/genes/:id" => "/genes/{id}",
        other => other,
    }
}

/// Logs one event a request. Neither the key nor the query is in it.
fn log(
    labels: RequestLabels<'_>,
    response: &Response,
    took: Duration,
    request_id: &str,
    trace: &RequestTrace,
) {
    tracing::info!(
        target: "gene_registry::request",
        method = method_label(labels.method),
        route = labels.route.unwrap_or(UNKNOWN),
        status = labels.status,
        ms = log_ms(took),
        cache = labels.source,
        key = response.data::<AuthenticatedKey>().map(|authenticated| authenticated.key.prefix.as_str()),
        request_id,
        trace_id = trace.id().map(tracing::field::display),
        cause = response.data::<ErrorCause>().map(|cause| error_chain(&*cause.0)),
        "request"
    );
}
