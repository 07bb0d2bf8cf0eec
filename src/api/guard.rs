//! What surrounds every operation: method, key, limit; only then parameters and handler. Then
//! the limit's headers on whatever came out, a caught panic included.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use poem::endpoint::{BoxEndpoint, DynEndpoint};
use poem::http::{HeaderValue, Method};
use poem::{Endpoint, IntoResponse, Request, Response, Result};
use poem_openapi::OpenApi;
use tokio::time::{error::Elapsed, timeout};

use super::conditional::Conditions;
use super::error::{ApiError, OVERLOAD_SECONDS, refusal};
use super::headers;
use crate::cache::{CacheReply, Source};
use crate::keys::Authenticator;
use crate::limit::{Decision, Limiter};
use crate::registry::{ApiKeyRecord, KeyId};

/// A URL may be this long.
const MAX_URL_BYTES: usize = 8192;

/// Who may pass, and how often. One for each replica.
pub struct AccessControl {
    /// Checks keys.
    pub authenticator: Arc<Authenticator>,
    /// Counts requests.
    pub limiter: Limiter<KeyId>,
    /// How long an operation may take, once its request has been counted.
    pub patience: Duration,
}

/// Who was let in, and where their answer was found: goes with the answer, for log and metrics.
#[derive(Debug, Clone)]
pub(super) struct AuthenticatedKey {
    pub(super) key: Arc<ApiKeyRecord>,
    pub(super) source: Option<Source>,
}

/// An operation behind the gate. HEAD is kept out like every other method but GET: the framework
/// would run it.
pub(super) struct ProtectedEndpoint {
    inner: BoxEndpoint<'static>,
    gate: Arc<AccessControl>,
}

/// The operations of `api` by path.
pub(super) fn guarded(
    api: impl OpenApi,
    gate: Arc<AccessControl>,
) -> impl Iterator<Item = (String, ProtectedEndpoint)> {
    let mut operations = HashMap::new();
    api.add_routes(&mut operations);
    operations.into_iter().filter_map(move |(path, mut methods)| {
        let inner = methods.remove(&Method::GET)?;
        Some((path, ProtectedEndpoint { inner, gate: Arc::clone(&gate) }))
    })
}

impl Endpoint for ProtectedEndpoint {
    type Output = Response;

    #[expect(clippy::manual_async_fn, reason = "an async function keeps what it is given twice")]
    fn call(&self, request: Request) -> impl Future<Output = Result<Response>> + Send {
        // The request stays in one place until the operation gets it: whoever took it over on the
        // way would copy it, and so would the box around this.
        async move {
            if *request.method() != Method::GET {
                return Err(ApiError::MethodNotAllowed { allow: "GET" }.into());
            }
            let key = match self.identify(&request).await {
                Ok(key) => key,
                Err(error) => return Ok(unauthenticated(error)),
            };
            let conditions = Conditions::of(request.headers());
            let (decision, refused) = self.decide(&request, &key).await;
            let response = match refused {
                None => self.answer(request).await,
                Some(error) => error.into_response(),
            };
            Ok(finish(response, &conditions, &decision, key))
        }
    }
}

impl ProtectedEndpoint {
    async fn identify(&self, request: &Request) -> Result<Arc<ApiKeyRecord>, ApiError> {
        let presented = request.headers().get_all(headers::API_KEY);
        let presented = presented.iter().map(HeaderValue::as_bytes);
        Ok(self.gate.authenticator.check(presented).await?)
    }

    /// How the key's window stands, and why the request goes no further, if so.
    async fn decide(&self, request: &Request, key: &ApiKeyRecord) -> (Decision, Option<ApiError>) {
        let limit = key.rate_limit_per_minute;
        match self.gate.limiter.decide(key.hash.id(), limit).await {
            Ok(decision) if decision.admitted => (decision, check_length(request).err()),
            Ok(decision) => (decision, Some(ApiError::RateLimited(decision))),
            // How the window stands is not known; the client is told what fits its waiting.
            Err(error) => {
                let wait = Duration::from_secs(OVERLOAD_SECONDS);
                (Decision::of(false, limit, limit, wait), Some(error.into()))
            }
        }
    }

    fn answer(&self, request: Request) -> impl Future<Output = Response> {
        // Boxed as it comes: it is not moved about here.
        let answer = AssertUnwindSafe(DynEndpoint::call(&*self.inner, request)).catch_unwind();
        let answer = timeout(self.gate.patience, answer);
        async {
            match answer.await {
                Ok(Ok(Ok(response))) => response,
                Ok(Ok(Err(error))) => refusal(error),
                Ok(Err(_)) => ApiError::Internal.into_response(),
                // All that it waits for has bounds of its own; this is for what nobody thought of.
                Err(Elapsed { .. }) => ApiError::Unavailable.into_response(),
            }
        }
    }
}

fn unauthenticated(error: ApiError) -> Response {
    let mut response = error.into_response();
    headers::add_vary(response.headers_mut());
    response
}

/// What every answer to a valid key carries.
fn finish(
    mut response: Response,
    conditions: &Conditions,
    decision: &Decision,
    key: Arc<ApiKeyRecord>,
) -> Response {
    let served = response.extensions_mut().remove::<CacheReply>();
    match &served {
        Some(served) => conditions.apply(&mut response, served, decision),
        None => {
            headers::add_rate_limit(response.headers_mut(), decision);
            headers::add_vary(response.headers_mut());
        }
    }
    response.set_data(AuthenticatedKey { key, source: served.map(|served| served.source) });
    response
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
