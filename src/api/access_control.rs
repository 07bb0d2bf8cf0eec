//! The middleware around every operation. It checks method, key and rate limit, in this order,
//! before parameters are parsed and the handler runs; then it adds the rate limit's headers to
//! every response, that of a caught panic included.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryFutureExt;
use poem::endpoint::{BoxEndpoint, DynEndpoint};
use poem::error::ResponseError;
use poem::http::{HeaderValue, Method};
use poem::{Endpoint, Request, Response, Result};
use poem_openapi::OpenApi;
use tokio::time::{error::Elapsed, timeout};

use super::error::{ApiError, OVERLOAD_SECONDS, Overload};
use super::headers;
use super::negotiation::Negotiation;
use crate::cache::{CacheReply, Source};
use crate::http::error::{InvalidParameter, catch_errors};
use crate::http::trusted_proxies::TrustedProxies;
use crate::keys::Authenticator;
use crate::limit::{Decision, Limiter, LimiterUnavailable};
use crate::registry::{ApiKeyRecord, KeyId};

/// Longest path and query.
const MAX_URL_BYTES: usize = 8192;

/// Decides which requests reach the operations. One a replica.
pub struct AccessControl {
    /// Checks keys.
    pub authenticator: Arc<Authenticator>,
    /// The proxies that may report where a request comes from.
    pub trusted_proxies: TrustedProxies,
    /// Counts requests.
    pub limiter: Limiter<KeyId>,
    /// How long an operation may take, counted from the rate limit's decision.
    pub timeout: Duration,
}

/// Data of a response, for log and metrics: the key of the request, and where the result was found.
#[derive(Debug, Clone)]
pub(super) struct AuthenticatedKey {
    pub(super) key: Arc<ApiKeyRecord>,
    pub(super) source: Option<Source>,
}

/// An operation behind the access control. Every method but GET is refused, HEAD included, which
/// the framework would run.
pub(super) struct ProtectedEndpoint {
    inner: BoxEndpoint<'static>,
    access_control: Arc<AccessControl>,
}

/// The operations of `api` by path.
pub(super) fn protected(
    api: impl OpenApi,
    access_control: Arc<AccessControl>,
) -> impl Iterator<Item = (String, ProtectedEndpoint)> {
    let mut operations = HashMap::new();
    api.add_routes(&mut operations);
    operations.into_iter().filter_map(move |(path, mut methods)| {
        let inner = methods.remove(&Method::GET)?;
        Some((path, ProtectedEndpoint { inner, access_control: Arc::clone(&access_control) }))
    })
}

impl Endpoint for ProtectedEndpoint {
    type Output = Response;

    #[expect(clippy::manual_async_fn, reason = "its future would hold the request twice")]
    fn call(&self, request: Request) -> impl Future<Output = Result<Response>> + Send {
        // Not an `async fn`: its future would hold the request twice and copy it on each move
        // (measured, docs/performance.md).
        async move {
            if *request.method() != Method::GET {
                return Err(ApiError::MethodNotAllowed { allow: "GET".into() }.into());
            }
            let key = match self.authenticate(&request).await {
                Ok(key) => key,
                Err(error) => return Ok(unauthenticated(error)),
            };
            let negotiation = Negotiation::of(request.headers());
            let (decision, refused) = self.decide(&request, &key).await;
            let response = match refused {
                None => self.run(request).await,
                Some(error) => error.as_response(),
            };
            Ok(finish(response, &negotiation, &decision, key))
        }
    }
}

impl ProtectedEndpoint {
    async fn authenticate(&self, request: &Request) -> Result<Arc<ApiKeyRecord>, ApiError> {
        let presented = request.headers().get_all(headers::API_KEY);
        let presented = presented.iter().map(HeaderValue::as_bytes);
        let AccessControl { authenticator, trusted_proxies, .. } = &*self.access_control;
        Ok(authenticator.check(presented, || trusted_proxies.source(request)).await?)
    }

    /// Counts the request. Returns the state of the key's window, and the error of a refused request.
    async fn decide(&self, request: &Request, key: &ApiKeyRecord) -> (Decision, Option<ApiError>) {
        let limit = key.rate_limit_per_minute;
        match self.access_control.limiter.decide(key.hash.id(), limit).await {
            Ok(decision) if decision.admitted => (decision, check_length(request).err()),
            Ok(decision) => (decision, Some(ApiError::RateLimited(decision))),
            // The window's state is unknown; these numbers agree with `Retry-After`.
            Err(LimiterUnavailable) => {
                let wait = Duration::from_secs(OVERLOAD_SECONDS);
                let error = ApiError::Unavailable(Overload::Uncounted);
                (Decision::of(false, limit, limit, wait), Some(error))
            }
        }
    }

    fn run(&self, request: Request) -> impl Future<Output = Response> {
        // The boxed future of the operation, so that the request is not moved once more.
        let operation = catch_errors::<ApiError>(DynEndpoint::call(&*self.inner, request));
        // Everything that an operation waits for has its own timeout; this is a backstop.
        timeout(self.access_control.timeout, operation).unwrap_or_else(|Elapsed { .. }| {
            ApiError::Unavailable(Overload::TimedOut).as_response()
        })
    }
}

fn unauthenticated(error: ApiError) -> Response {
    let mut response = error.as_response();
    headers::add_vary(response.headers_mut());
    response
}

/// Completes the response to a request with a valid key.
fn finish(
    mut response: Response,
    negotiation: &Negotiation,
    decision: &Decision,
    key: Arc<ApiKeyRecord>,
) -> Response {
    let served = response.extensions_mut().remove::<CacheReply>();
    match &served {
        Some(served) => negotiation.complete(&mut response, served, decision),
        None => {
            headers::add_rate_limit(response.headers_mut(), decision);
            headers::add_vary(response.headers_mut());
        }
    }
    response.set_data(AuthenticatedKey { key, source: served.map(|served| served.source) });
    response
}

/// Limits path and query together. A path that is too long by itself has an invalid id.
fn check_length(request: &Request) -> Result<(), ApiError> {
    let uri = request.original_uri();
    let length = uri.path_and_query().map_or(0, |text| text.as_str().len());
    if length > MAX_URL_BYTES && uri.path().len() <= MAX_URL_BYTES {
        let message = format!("the URL must be at most {MAX_URL_BYTES} bytes; given: {length}");
        return Err(InvalidParameter(message).into());
    }
    Ok(())
}
