//! Routes of a path by method; other methods get a 405 with `Allow`.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use poem::endpoint::BoxEndpoint;
use poem::http::Method;
use poem::{Endpoint, EndpointExt, Request, Response, Result};

use super::error::{ErrorResponse, catch_errors};

/// Endpoints by path and method, as the framework lists them.
pub(crate) type Endpoints = HashMap<String, HashMap<Method, BoxEndpoint<'static>>>;

/// The endpoints of one path by method, in an API whose errors are `E`.
pub(crate) struct MethodRoutes<E> {
    endpoints: HashMap<Method, BoxEndpoint<'static>>,
    allow: String,
    error: PhantomData<fn() -> E>,
}

impl<E: ErrorResponse> MethodRoutes<E> {
    /// The routes of a path with these endpoints.
    pub(crate) fn new(endpoints: HashMap<Method, BoxEndpoint<'static>>) -> Self {
        let mut names: Vec<&str> = endpoints.keys().map(Method::as_str).collect();
        names.sort_unstable();
        let allow = names.join(", ");
        Self { endpoints, allow, error: PhantomData }
    }

    /// The routes of a page, which supports GET and HEAD.
    pub(crate) fn of_page(page: impl Endpoint<Output = Response> + 'static) -> Self {
        let page = Arc::new(page);
        let both = [Method::GET, Method::HEAD];
        Self::new(both.map(|method| (method, Arc::clone(&page).boxed())).into())
    }

    /// Whether the path supports this method.
    pub(crate) fn supports(&self, method: &Method) -> bool {
        self.endpoints.contains_key(method)
    }
}

impl<E: ErrorResponse> Endpoint for MethodRoutes<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let Some(endpoint) = self.endpoints.get(request.method()) else {
            return Ok(E::method_not_allowed(self.allow.clone()).as_response());
        };
        // Errors become responses here, so that the route is known to log and metrics.
        Ok(catch_errors::<E>(endpoint.call(request)).await)
    }
}
