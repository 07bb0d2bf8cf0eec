//! Serves the document in the requested version, with the address under which the client reaches
//! the service.

use std::sync::Arc;
use std::time::Instant;

use moka::sync::Cache;
use poem::http::{HeaderValue, header};
use poem::{Endpoint, Request, Response, Result, Route};

use crate::api::document::Document;
use crate::api::error::ApiError;
use crate::api::pages::content::Pages;
use crate::http::document::{DocumentFormat, OpenApiVersion};
use crate::http::methods::MethodRoutes;
use crate::http::parameter::parse_query;
use crate::http::static_file::StaticFile;
use crate::http::trusted_proxies::{TrustedProxies, direct_host};
use crate::sync::TokenBucket;

/// Cached texts: all forms for a few addresses, each plain and compressed.
const MAX_CACHED_TEXTS: u64 = 16;

/// Texts that are made for new addresses: in a burst, and per second on average. Each takes
/// milliseconds, and anybody can make up addresses.
const NEW_TEXTS_BURST: u32 = 128;
const NEW_TEXTS_PER_SECOND: u32 = 4;

/// The paths of the document.
pub(super) const DOCUMENT_PATHS: [(&str, DocumentFormat); 4] = [
    ("/v1/openapi.json", DocumentFormat::Json),
    ("/v1/openapi.yaml", DocumentFormat::Yaml),
    ("/openapi.json", DocumentFormat::Json),
    ("/openapi.yaml", DocumentFormat::Yaml),
];

/// The headers that select the text if the address of the client's request does.
const VARY: HeaderValue = HeaderValue::from_static(
    "Accept-Encoding, Forwarded, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, \
     X-Forwarded-Prefix, Via, Host",
);

/// Of a text with a reported address. No shared cache may store it: a client whose headers pass a
/// proxy would choose the address for all.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, max-age=3600");

/// The document and its cached texts.
pub(super) struct DocumentTexts {
    document: Document,
    public_url: Option<String>,
    documents_own_address: bool,
    trusted_proxies: TrustedProxies,
    cache: Cache<(OpenApiVersion, DocumentFormat, String), StaticFile>,
    new_texts: TokenBucket,
}

impl DocumentTexts {
    pub(super) fn new(pages: Pages) -> Self {
        let Pages { document, public_url, documents_own_address, trusted_proxies, .. } = pages;
        let new_texts = TokenBucket::new(NEW_TEXTS_BURST, NEW_TEXTS_PER_SECOND, Instant::now());
        let cache = Cache::new(MAX_CACHED_TEXTS);
        Self { document, public_url, documents_own_address, trusted_proxies, cache, new_texts }
    }

    /// The address of the service: the configured one, else the one that a trusted proxy reports, else
    /// perhaps the one that a direct client used; else empty, for the root of the server from which the
    /// client fetches the document.
    fn address(&self, request: &Request) -> String {
        let own = || self.documents_own_address.then(|| own_address(request)).flatten();
        let reported = || self.trusted_proxies.address(request);
        self.public_url.clone().or_else(reported).or_else(own).unwrap_or_default()
    }

    /// Whether the text depends on the address of a request.
    fn depends_on_request(&self) -> bool {
        self.public_url.is_none()
            && (!self.trusted_proxies.is_empty() || self.documents_own_address)
    }

    /// Adds the routes of the document.
    pub(super) fn add_to(self, route: Route) -> Route {
        let texts = Arc::new(self);
        DOCUMENT_PATHS.into_iter().fold(route, |route, (path, format)| {
            let endpoint = DocumentEndpoint { texts: Arc::clone(&texts), format };
            route.at(path, MethodRoutes::<ApiError>::of_page(endpoint))
        })
    }
}

/// Serves the document in one format.
struct DocumentEndpoint {
    texts: Arc<DocumentTexts>,
    format: DocumentFormat,
}

impl Endpoint for DocumentEndpoint {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let DocumentTexts { document, cache, new_texts, .. } = &*self.texts;
        let version = parse_query(request.uri().query().unwrap_or_default(), "version")?;
        let mut key = (version, self.format, self.texts.address(&request));
        if !cache.contains_key(&key) && !new_texts.try_take(Instant::now()) {
            key.2.clear();
        }
        let file = cache.get_with_by_ref(&key, || {
            let text = document.text(version, self.format, &key.2);
            StaticFile::cached_for_an_hour(self.format.content_type(), text)
        });
        let mut response = file.response(request.headers());
        if self.texts.depends_on_request() {
            response.headers_mut().insert(header::VARY, VARY);
            response.headers_mut().insert(header::CACHE_CONTROL, PRIVATE);
        }
        Ok(response)
    }
}

/// The address that a client used that came without a proxy, as a URL.
fn own_address(request: &Request) -> Option<String> {
    let host = direct_host(request)?;
    Some(format!("{}://{host}", request.scheme()))
}
