//! The handler of the control listener: all routes and the middleware around them. From the outside
//! in: request id, log and metrics, host, errors as JSON, route, method, authentication; only then are
//! parameters and body parsed.

use std::sync::Arc;
use std::time::Instant;

use poem::error::ResponseError;
use poem::http::StatusCode;
use poem::{Endpoint, PathPattern, Request, Response, Result, Route};
use poem_openapi::OpenApi;
use tokio_util::task::TaskTracker;

use super::call_limiter::CallLimiter;
use super::error::ControlApiError;
use super::identity::{Caller, Identities};
use super::keys::KeysApi;
use super::login::LoginApi;
use super::pages::{add_pages, html_paths};
use crate::config::ControlConfig;
use crate::http::error::{ErrorCause, InvalidParameter, catch_errors};
use crate::http::failure_log::FailureLog;
use crate::http::headers::REQUEST_ID;
use crate::http::methods::{Endpoints, MethodRoutes};
use crate::http::request_id::RequestIds;
use crate::http::trusted_proxies::TrustedProxies;
use crate::http::unknown_pages::UnknownPages;
use crate::keys::{KeyLimits, KeyStore};
use crate::ops::{Metrics, error_chain, log_ms, method_label};
use crate::server::{Handler, InvalidHost};

/// The pages to which the page of an unknown address leads.
const LINKS: &[(&str, &str)] = &[("keys", "API keys"), ("docs", "Control API")];

/// The control API with its pages.
pub struct ControlApi {
    routes: Route,
    unknown_pages: UnknownPages,
    request_ids: RequestIds,
    failures: FailureLog,
    metrics: Arc<Metrics>,
    key_changes: TaskTracker,
}

impl ControlApi {
    /// Manages the keys in `store` for the callers that `identities` authenticates.
    /// `trusted_proxies` may report where their requests come from.
    pub fn new(
        config: &ControlConfig,
        identities: Identities,
        trusted_proxies: &TrustedProxies,
        store: Arc<dyn KeyStore>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (mut open, mut authenticated) = (Endpoints::new(), Endpoints::new());
        LoginApi::new(config).add_routes(&mut open);
        let (limits, key_changes) = (KeyLimits::from_config(config), TaskTracker::new());
        let (tasks, calls) = (key_changes.clone(), CallLimiter::new());
        KeysApi { store, limits, calls, tasks }.add_routes(&mut authenticated);
        for (path, methods) in open.iter().chain(&authenticated) {
            let labels = methods.keys().map(method_label);
            labels.for_each(|method| metrics.begin_control_route(path, method));
        }
        let identities = Arc::new(identities);
        let mut routes = add_pages(Route::new(), config, &identities);
        for (path, methods) in open {
            routes = routes.at(path, MethodRoutes::<ControlApiError>::new(methods));
        }
        for (path, methods) in authenticated {
            let (inner, identities) = (MethodRoutes::new(methods), Arc::clone(&identities));
            let trusted_proxies = trusted_proxies.clone();
            routes = routes.at(path, AuthenticatedRoutes { inner, identities, trusted_proxies });
        }
        let (request_ids, failures) = (RequestIds::default(), FailureLog::default());
        let unknown_pages = UnknownPages::new(html_paths(), "/control/v1/", LINKS);
        Self { routes, unknown_pages, request_ids, failures, metrics, key_changes }
    }

    /// The tasks that change keys. They go on when their callers have gone.
    pub(crate) fn key_changes(&self) -> TaskTracker {
        self.key_changes.clone()
    }
}

impl Handler for ControlApi {
    async fn handle(&self, request: Request, host: Result<(), InvalidHost>) -> Response {
        let started = Instant::now();
        let id = self.request_ids.of(request.headers());
        let method = method_label(request.method());
        let page = self.unknown_pages.request(&request);
        let mut response = match host {
            Ok(()) => catch_errors::<ControlApiError>(self.routes.call(request)).await,
            Err(error) => ControlApiError::from(InvalidParameter::from(error)).as_response(),
        };
        if let Some(page) = page
            && response.status() == StatusCode::NOT_FOUND
        {
            response = self.unknown_pages.response::<ControlApiError>(&page);
        }
        let route = response.data::<PathPattern>().map_or("unknown", |pattern| &*pattern.0);
        let status = response.status().as_u16();
        self.metrics.control_request(route, method, status);
        let request_id = id.to_str().unwrap_or_default();
        tracing::info!(
            target: "gene_registry::control",
            method,
            route,
            status,
            ms = log_ms(started.elapsed()),
            user = response.data::<Arc<Caller>>().map(|caller| caller.user.as_str()),
            request_id,
            cause = response.data::<ErrorCause>().map(|cause| error_chain(&*cause.0)),
            "request"
        );
        self.failures.record(&response, route, request_id);
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }
}

/// Authenticates the caller before the operations of a path run.
struct AuthenticatedRoutes {
    inner: MethodRoutes<ControlApiError>,
    identities: Arc<Identities>,
    trusted_proxies: TrustedProxies,
}

impl Endpoint for AuthenticatedRoutes {
    type Output = Response;

    async fn call(&self, mut request: Request) -> Result<Response> {
        if !self.inner.supports(request.method()) {
            return self.inner.call(request).await;
        }
        let source = self.trusted_proxies.source(&request);
        let caller = match self.identities.caller(request.headers(), source).await {
            Ok(caller) => Arc::new(caller),
            Err(error) => return Ok(ControlApiError::from(error).as_response()),
        };
        request.set_data(Arc::clone(&caller));
        let mut response = self.inner.call(request).await?;
        response.set_data(caller);
        Ok(response)
    }
}
