//! What is served without a key besides the document: Swagger UI, the way to it.

use std::sync::Arc;

use bytes::Bytes;
use poem::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use poem::{Endpoint, IntoResponse, Request, Response, Result, Route};

use super::error::ApiError;

/// Nothing but this page's own files; no inline scripts; no other site.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

const HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Something that never changes while the process runs.
#[derive(Clone)]
struct Fixed {
    content_type: &'static str,
    body: Bytes,
}

macro_rules! swagger_ui_file {
    ($content_type:literal, $name:literal) => {
        Fixed {
            content_type: $content_type,
            body: Bytes::from_static(include_bytes!(concat!("swagger_ui/", $name))),
        }
    };
}

/// Adds the pages to a route.
pub(super) fn add_to(route: Route) -> Route {
    route
        .at("/", Arc::new(Redirect("docs")))
        .at("/docs", swagger_ui_file!("text/html; charset=utf-8", "index.html"))
        .at("/docs/init.js", swagger_ui_file!("text/javascript; charset=utf-8", "init.js"))
        .at(
            "/docs/swagger-ui-bundle.js",
            swagger_ui_file!("text/javascript; charset=utf-8", "swagger-ui-bundle.js"),
        )
        .at("/docs/swagger-ui.css", swagger_ui_file!("text/css; charset=utf-8", "swagger-ui.css"))
        .at("/docs/favicon-32x32.png", swagger_ui_file!("image/png", "favicon-32x32.png"))
}

impl Endpoint for Fixed {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        get_or_head(&request)?;
        let mut response = Response::builder().body(self.body.clone());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        protect(headers);
        Ok(response)
    }
}

/// What everything here is served with.
pub(super) fn protect(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::CACHE_CONTROL, HOUR);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

/// Leads elsewhere by a relative reference, which is right under any path prefix.
struct Redirect(&'static str);

impl Endpoint for Redirect {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        get_or_head(&request)?;
        let location = (header::LOCATION, self.0);
        Ok(StatusCode::FOUND.with_header(location.0, location.1).into_response())
    }
}

pub(super) fn get_or_head(request: &Request) -> Result<(), ApiError> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(ApiError::MethodNotAllowed { allow: "GET, HEAD" }),
    }
}
