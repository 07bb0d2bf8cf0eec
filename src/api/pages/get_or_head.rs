//! The methods of pages.

use poem::http::Method;
use poem::{Endpoint, Request, Response, Result};

use crate::api::error::ApiError;

/// A page, which supports GET and HEAD; the server drops the body of a response to HEAD.
pub(super) struct GetOrHead<E>(pub(super) E);

impl<E: Endpoint<Output = Response>> Endpoint for GetOrHead<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        match *request.method() {
            Method::GET | Method::HEAD => self.0.call(request).await,
            _ => Err(ApiError::MethodNotAllowed { allow: "GET, HEAD" }.into()),
        }
    }
}
