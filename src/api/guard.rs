//! What surrounds every operation: method, key, limit; only then parameters and handler. Then
//! the limit's headers on whatever came out, a caught panic included.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use poem::endpoint::BoxEndpoint;
use poem::http::{HeaderValue, Method};
use poem::{Endpoint, EndpointExt, IntoResponse, Request, Response, Result};
use poem_openapi::OpenApi;
use poem_openapi::registry::{MetaApi, Registry};
use tokio::time::{error::Elapsed, timeout};

use super::conditional::Conditions;
use super::error::{ApiError, OVERLOAD_SECONDS, refusal};
use super::headers;
use crate::keys::Authenticator;
use crate::limit::{Decision, Limiter};
use crate::upstream::{ApiKeyRecord, KeyId};

/// A URL may be this long.
const MAX_URL_BYTES: usize = 8192;

/// Who may pass, and how often. One for each replica.
pub struct Gate {
    /// Checks keys.
    pub authenticator: Arc<Authenticator>,
    /// Counts requests.
    pub limiter: Limiter<KeyId>,
    /// How long an operation may take, once its request has been counted.
    pub patience: Duration,
}

/// An API whose operations are all behind the gate.
pub(super) struct Guarded<A> {
    api: A,
    gate: Arc<Gate>,
}

impl<A> Guarded<A> {
    pub(super) fn new(api: A, gate: Arc<Gate>) -> Self {
        Self { api, gate }
    }
}

type Routes = HashMap<String, HashMap<Method, BoxEndpoint<'static>>>;

impl<A: OpenApi> OpenApi for Guarded<A> {
    fn meta() -> Vec<MetaApi> {
        A::meta()
    }

    fn register(registry: &mut Registry) {
        A::register(registry);
    }

    /// Routes as the framework has them, each wrapped. They all answer to GET alone.
    fn add_routes(self, routes: &mut Routes) {
        let mut open = Routes::new();
        self.api.add_routes(&mut open);
        for (path, methods) in open {
            let guarded = methods.into_iter().map(|(method, inner)| {
                (method, GuardedEndpoint { inner, gate: Arc::clone(&self.gate) }.boxed())
            });
            routes.entry(path).or_default().extend(guarded);
        }
    }
}

struct GuardedEndpoint {
    inner: BoxEndpoint<'static>,
    gate: Arc<Gate>,
}

impl Endpoint for GuardedEndpoint {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let mut response = match self.identify(&request).await {
            Ok(key) => {
                let mut response = self.count(request, &key).await;
                response.set_data(key);
                response
            }
            Err(error) => error.into_response(),
        };
        headers::add_vary(response.headers_mut());
        Ok(response)
    }
}

impl GuardedEndpoint {
    async fn identify(&self, request: &Request) -> Result<Arc<ApiKeyRecord>, ApiError> {
        let presented = request.headers().get_all(headers::API_KEY);
        let presented = presented.iter().map(HeaderValue::as_bytes);
        Ok(self.gate.authenticator.check(presented).await?)
    }

    async fn count(&self, request: Request, key: &ApiKeyRecord) -> Response {
        let limit = key.rate_limit_per_minute;
        let (mut response, decision) = match self.gate.limiter.decide(key.hash.id(), limit).await {
            Ok(decision) => (self.answer(request, &decision).await, decision),
            // How the window stands is not known; the client is told what fits its waiting.
            Err(error) => {
                let wait = Duration::from_secs(OVERLOAD_SECONDS);
                let decision = Decision::of(false, limit, limit, wait);
                (ApiError::from(error).into_response(), decision)
            }
        };
        headers::add_rate_limit(response.headers_mut(), &decision);
        response
    }

    async fn answer(&self, request: Request, decision: &Decision) -> Response {
        if !decision.admitted {
            return ApiError::RateLimited(*decision).into_response();
        }
        if let Err(error) = check_length(&request) {
            return error.into_response();
        }
        let conditions = Conditions::of(request.headers());
        let answer = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        let mut response = match timeout(self.gate.patience, answer).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(error))) => refusal(error),
            Ok(Err(_)) => ApiError::Internal.into_response(),
            // All that it waits for has bounds of its own; this is for what nobody has thought of.
            Err(Elapsed { .. }) => ApiError::Unavailable.into_response(),
        };
        conditions.apply(&mut response);
        response
    }
}

/// A path of any length is left to the id's own check.
fn check_length(request: &Request) -> Result<(), ApiError> {
    let uri = request.original_uri();
    let length = uri.path_and_query().map_or(0, |text| text.as_str().len());
    if length > MAX_URL_BYTES && uri.path().len() <= MAX_URL_BYTES {
        let message = format!("the URL must be {MAX_URL_BYTES} bytes at most; given: {length}");
        return Err(ApiError::Parameter(message));
    }
    Ok(())
}
