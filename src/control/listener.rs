//! The control listener: every route, and what surrounds them all. From the outside in: request
//! id, log, errors as JSON; route; method; who is asking; only then parameters and body.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use poem::endpoint::BoxEndpoint;
use poem::http::{HeaderValue, Method, StatusCode, header};
use poem::{
    Addr, Endpoint, EndpointExt, IntoResponse, PathPattern, Request, Response, Result, Route,
};

use super::document;
use super::error::{Cause, ControlError, refusal};
use super::identity::{Caller, Identities};
use super::keys::KeysApi;
use super::login::{LoginApi, LoginMetadataEndpoint};
use crate::api::headers::REQUEST_ID;
use crate::api::pages::{self, StaticFile};
use crate::api::request_log::{RequestIds, error_chain};
use crate::config::ControlConfig;
use crate::keys::KeyStore;
use crate::ops::{ControlLabels, Metrics, method_word};
use crate::server::Handler;

/// What the control listener serves.
pub struct ControlApi {
    routes: Route,
    request_ids: RequestIds,
    metrics: Arc<Metrics>,
}

impl ControlApi {
    /// The keys in `store`, for whomever `identities` knows.
    pub fn new(
        config: &ControlConfig,
        identities: Identities,
        store: Arc<dyn KeyStore>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let login = LoginApi(Arc::new(LoginMetadataEndpoint::new(config)));
        let [open, guarded] = document::operations(login, KeysApi(store));
        let identities = Arc::new(identities);
        let mut routes = pages(Route::new(), config.public_url.as_deref());
        for (path, methods) in open {
            routes = routes.at(path, Methods::new(methods));
        }
        for (path, methods) in guarded {
            let inner = Methods::new(methods);
            routes = routes.at(path, Identified { inner, identities: Arc::clone(&identities) });
        }
        Self { routes, request_ids: RequestIds::default(), metrics }
    }
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The document, and Swagger UI to try it.
fn pages(route: Route, public_url: Option<&str>) -> Route {
    let document = StaticFile::kept_for_an_hour("application/json", document::document(public_url));
    let own = [
        ("/docs", StaticFile::new(HTML, include_str!("pages/index.html"))),
        ("/docs/init.js", StaticFile::new(SCRIPT, include_str!("pages/init.js"))),
        ("/control/v1/openapi.json", document),
    ];
    let route = own
        .into_iter()
        .chain(pages::swagger_ui())
        .fold(route, |route, (path, file)| route.at(path, Methods::of_page(file)));
    route.at("/", Methods::of_page(ToDocs))
}

/// There is nothing else to see here.
struct ToDocs;

impl Endpoint for ToDocs {
    type Output = Response;

    async fn call(&self, _: Request) -> Result<Response> {
        let response = Response::builder().status(StatusCode::FOUND);
        Ok(response.header(header::LOCATION, "docs").finish())
    }
}

impl Handler for ControlApi {
    async fn answer(&self, request: Request) -> Response {
        let begun = Instant::now();
        let id = self.request_ids.of(request.headers());
        let method = method_word(request.method());
        let answer = AssertUnwindSafe(self.routes.call(request)).catch_unwind().await;
        let mut response = answered(answer);
        let route = response.data::<PathPattern>().map_or("unknown", |pattern| &*pattern.0);
        let status = response.status().as_u16();
        self.metrics.control_request(ControlLabels { route, method, status });
        tracing::info!(
            target: "gene_registry::control",
            method,
            route,
            status,
            ms = begun.elapsed().as_secs_f64() * 1000.0,
            user = response.data::<Arc<Caller>>().map(|caller| caller.user.as_str()),
            request_id = id.to_str().unwrap_or_default(),
            cause = response.data::<Cause>().map(|cause| error_chain(&*cause.0)),
            "request"
        );
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }
}

/// The answer for whatever came out, a panic included.
fn answered(outcome: std::thread::Result<Result<Response>>) -> Response {
    match outcome {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => refusal(error),
        Err(_) => ControlError::Internal.into_response(),
    }
}

/// One path's endpoints by method.
struct Methods {
    endpoints: HashMap<Method, BoxEndpoint<'static>>,
    allow: String,
}

impl Methods {
    fn new(endpoints: HashMap<Method, BoxEndpoint<'static>>) -> Self {
        let mut names: Vec<&str> = endpoints.keys().map(Method::as_str).collect();
        names.sort_unstable();
        let allow = names.join(", ");
        Self { endpoints, allow }
    }

    fn of_page(page: impl Endpoint<Output = Response> + 'static) -> Self {
        let page = Arc::new(page);
        let both = [Method::GET, Method::HEAD];
        Self::new(both.map(|method| (method, Arc::clone(&page).boxed())).into())
    }
}

impl Endpoint for Methods {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let Some(endpoint) = self.endpoints.get(request.method()) else {
            let error = ControlError::MethodNotAllowed { allow: self.allow.clone() };
            return Ok(error.into_response());
        };
        // Answered here, where it is known which route it was.
        let answer = AssertUnwindSafe(endpoint.call(request)).catch_unwind().await;
        Ok(answered(answer))
    }
}

/// Lets nobody through who has not said who they are.
struct Identified {
    inner: Methods,
    identities: Arc<Identities>,
}

impl Endpoint for Identified {
    type Output = Response;

    async fn call(&self, mut request: Request) -> Result<Response> {
        if !self.inner.endpoints.contains_key(request.method()) {
            return self.inner.call(request).await;
        }
        let from = match &**request.remote_addr() {
            Addr::SocketAddr(address) => address.ip(),
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let caller = match self.identities.caller(request.headers(), from).await {
            Ok(caller) => Arc::new(caller),
            Err(error) => return Ok(ControlError::from(error).into_response()),
        };
        request.set_data(Arc::clone(&caller));
        let mut response = self.inner.call(request).await?;
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Authorization"));
        response.set_data(caller);
        Ok(response)
    }
}
