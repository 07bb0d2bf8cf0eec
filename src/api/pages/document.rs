//! Serves the document in the requested version, with the address under which the client reaches
//! the service.

use std::sync::Arc;

use moka::sync::Cache;
use poem::http::{HeaderValue, header};
use poem::{Endpoint, Request, Response, Result, Route};

use crate::api::document::{Document, DocumentFormat, OpenApiVersion};
use crate::api::error::ApiError;
use crate::api::forwarded::TrustedProxies;
use crate::http::methods::MethodRoutes;
use crate::http::parameter::parse_query;
use crate::http::static_file::StaticFile;

/// Cached texts: all forms for a few addresses, each plain and compressed.
const MAX_CACHED_TEXTS: u64 = 16;

/// The paths of the document.
pub(super) const DOCUMENT_PATHS: [(&str, DocumentFormat); 4] = [
    ("/v1/openapi.json", DocumentFormat::Json),
    ("/v1/openapi.yaml", DocumentFormat::Yaml),
    ("/openapi.json", DocumentFormat::Json),
    ("/openapi.yaml", DocumentFormat::Yaml),
];

/// The headers that select the text if proxies are trusted.
const VARY: HeaderValue = HeaderValue::from_static(
    "Accept-Encoding, Forwarded, X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Prefix, Host",
);

/// What the endpoints of all paths share. Cheap to clone.
#[derive(Clone)]
pub(super) struct DocumentEndpoint(Arc<DocumentSource>);

struct DocumentSource {
    document: Document,
    public_url: Option<String>,
    trusted_proxies: TrustedProxies,
    texts: Cache<TextKey, StaticFile>,
}

type TextKey = (OpenApiVersion, DocumentFormat, String);

impl DocumentEndpoint {
    /// `public_url` is the address of the service, if it is configured; otherwise
    /// `trusted_proxies` may report it.
    pub(super) fn new(
        document: Document,
        public_url: Option<String>,
        trusted_proxies: TrustedProxies,
    ) -> Self {
        let texts = Cache::new(MAX_CACHED_TEXTS);
        Self(Arc::new(DocumentSource { document, public_url, trusted_proxies, texts }))
    }

    /// Adds the routes of the document.
    pub(super) fn add_to(self, route: Route) -> Route {
        DOCUMENT_PATHS.into_iter().fold(route, |route, (path, format)| {
            let endpoint = FormatEndpoint { source: Arc::clone(&self.0), format };
            route.at(path, MethodRoutes::<ApiError>::of_page(endpoint))
        })
    }
}

struct FormatEndpoint {
    source: Arc<DocumentSource>,
    format: DocumentFormat,
}

impl Endpoint for FormatEndpoint {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let query = request.uri().query().unwrap_or_default();
        let version: OpenApiVersion = parse_query(query, "version")?;
        let key = (version, self.format, self.source.address(&request));
        let text = self.source.texts.get_with_by_ref(&key, || self.source.text(&key));
        let mut response = text.response(request.headers());
        if !self.source.trusted_proxies.is_empty() {
            response.headers_mut().insert(header::VARY, VARY);
        }
        Ok(response)
    }
}

impl DocumentSource {
    /// The address under which the client reaches the service; empty for the root of the server
    /// from which it fetches the document.
    fn address(&self, request: &Request) -> String {
        let reported = || self.trusted_proxies.address(request);
        self.public_url.clone().or_else(reported).unwrap_or_default()
    }

    fn text(&self, (version, format, address): &TextKey) -> StaticFile {
        let content_type = match format {
            DocumentFormat::Json => "application/json",
            DocumentFormat::Yaml => "application/yaml",
        };
        let text = self.document.text(*version, *format, address);
        StaticFile::cached_for_an_hour(content_type, text)
    }
}
