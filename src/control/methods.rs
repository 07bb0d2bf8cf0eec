//! Routes of a path by method; other methods get a 405 with `Allow`.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use poem::endpoint::BoxEndpoint;
use poem::error::ResponseError;
use poem::http::Method;
use poem::{Endpoint, EndpointExt, Request, Response, Result};

use super::error::ControlApiError;
use crate::http::error::response_of;

/// Endpoints by path and method, as the framework lists them.
pub(super) type Endpoints = HashMap<String, HashMap<Method, BoxEndpoint<'static>>>;

/// The endpoints of a path by method.
pub(super) struct MethodRoutes {
    endpoints: HashMap<Method, BoxEndpoint<'static>>,
    allow: String,
}

impl MethodRoutes {
    /// A path with these endpoints.
    pub(super) fn new(endpoints: HashMap<Method, BoxEndpoint<'static>>) -> Self {
        let mut names: Vec<&str> = endpoints.keys().map(Method::as_str).collect();
        names.sort_unstable();
        let allow = names.join(", ");
        Self { endpoints, allow }
    }

    /// Whether the path supports this method.
    pub(super) fn supports(&self, method: &Method) -> bool {
        self.endpoints.contains_key(method)
    }

    /// A path with a page, which supports GET and HEAD.
    pub(super) fn of_page(page: impl Endpoint<Output = Response> + 'static) -> Self {
        let page = Arc::new(page);
        let both = [Method::GET, Method::HEAD];
        Self::new(both.map(|method| (method, Arc::clone(&page).boxed())).into())
    }
}

impl Endpoint for MethodRoutes {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let Some(endpoint) = self.endpoints.get(request.method()) else {
            let error = ControlApiError::MethodNotAllowed { allow: self.allow.clone() };
            return Ok(error.as_response());
        };
        // Errors become responses here, so that the route is known to log and metrics.
        let outcome = AssertUnwindSafe(endpoint.call(request)).catch_unwind().await;
        Ok(response_of::<ControlApiError>(outcome))
    }
}
