//! The document as it is served: in the version asked for, with the address under which whoever
//! asks reaches the service, and with an entity tag.

use std::sync::Arc;

use poem::http::{HeaderMap, HeaderValue, StatusCode, header};
use poem::{Endpoint, Request, Response, Result, Route};

use super::{Document, Format, Version, digest};
use crate::api::conditional;
use crate::api::forwarded::TrustedProxies;
use crate::api::pages;
use crate::api::query::parse_parameter;

/// A document and how the service is reached.
#[derive(Debug)]
pub struct Publication {
    /// What is served.
    pub document: Document,
    /// Where clients reach the service, if that is set.
    pub public_url: Option<String>,
    /// Who else may say so.
    pub trusted_proxies: TrustedProxies,
}

/// What decides about the text besides the query.
const VARY: HeaderValue = HeaderValue::from_static(
    "Forwarded, X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Prefix, Host",
);

/// Adds the document to a route.
pub(in crate::api) fn add_to(mut route: Route, publication: &Arc<Publication>) -> Route {
    for (path, format) in [
        ("/v1/openapi.json", Format::Json),
        ("/v1/openapi.yaml", Format::Yaml),
        ("/openapi.json", Format::Json),
        ("/openapi.yaml", Format::Yaml),
    ] {
        route = route.at(path, Served { publication: Arc::clone(publication), format });
    }
    route
}

struct Served {
    publication: Arc<Publication>,
    format: Format,
}

impl Endpoint for Served {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        pages::get_or_head(&request)?;
        let version: Version =
            parse_parameter(request.uri().query().unwrap_or_default(), "version")?;
        let Publication { document, public_url, trusted_proxies } = &*self.publication;
        let address = public_url.clone().or_else(|| trusted_proxies.address(&request));
        let body = document.text(version, self.format, address.as_deref().unwrap_or_default());
        let tag = format!("\"{}\"", digest(&body));
        let has = request.headers().get_all(header::IF_NONE_MATCH);
        let mut response = if has.iter().any(|list| conditional::matches(list.as_bytes(), &tag)) {
            Response::builder().status(StatusCode::NOT_MODIFIED).finish()
        } else {
            Response::builder().body(body)
        };
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, self.content_type());
        headers.extend(HeaderValue::try_from(tag).ok().map(|tag| (header::ETAG, tag)));
        if !trusted_proxies.is_empty() {
            headers.insert(header::VARY, VARY);
        }
        pages::protect(headers);
        without_body_headers(response.status(), response.headers_mut());
        Ok(response)
    }
}

impl Served {
    fn content_type(&self) -> HeaderValue {
        HeaderValue::from_static(match self.format {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        })
    }
}

fn without_body_headers(status: StatusCode, headers: &mut HeaderMap) {
    if status == StatusCode::NOT_MODIFIED {
        headers.remove(header::CONTENT_TYPE);
    }
}
