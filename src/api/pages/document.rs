//! The document as it is served: in the version asked for, with the address under which whoever
//! asks reaches the service.

use std::sync::Arc;

use moka::sync::Cache;
use poem::http::{HeaderValue, header};
use poem::{Endpoint, Request, Response, Result, Route};

use super::static_file::StaticFile;
use crate::api::document::{Document, Format, Version};
use crate::api::forwarded::TrustedProxies;
use crate::api::query::parse_parameter;

/// How many texts are kept: all forms for a few addresses. Each costs its text and the coding.
const KEPT: u64 = 16;

/// Where it is.
pub(super) const PATHS: [(&str, Format); 4] = [
    ("/v1/openapi.json", Format::Json),
    ("/v1/openapi.yaml", Format::Yaml),
    ("/openapi.json", Format::Json),
    ("/openapi.yaml", Format::Yaml),
];

/// What decides about the text besides the query, where proxies are believed.
const VARY: HeaderValue = HeaderValue::from_static(
    "Accept-Encoding, Forwarded, X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Prefix, Host",
);

/// Answers with the document.
pub(super) struct DocumentEndpoint {
    pub(super) document: Document,
    /// Where clients reach the service, if that is set.
    pub(super) public_url: Option<String>,
    /// Who else may say so.
    pub(super) trusted_proxies: TrustedProxies,
}

type Texts = Cache<(Version, Format, String), StaticFile>;

impl DocumentEndpoint {
    pub(super) fn add_to(self, mut route: Route) -> Route {
        let (publication, texts) = (Arc::new(self), Texts::new(KEPT));
        for (path, format) in PATHS {
            let (publication, texts) = (Arc::clone(&publication), texts.clone());
            route = route.at(path, Served { publication, texts, format });
        }
        route
    }

    /// Where whoever asks reaches the service; empty for the root of wherever that was.
    fn address(&self, request: &Request) -> String {
        let told = || self.trusted_proxies.address(request);
        self.public_url.clone().or_else(told).unwrap_or_default()
    }
}

struct Served {
    publication: Arc<DocumentEndpoint>,
    texts: Texts,
    format: Format,
}

impl Endpoint for Served {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        super::get_or_head(&request)?;
        let version: Version =
            parse_parameter(request.uri().query().unwrap_or_default(), "version")?;
        let text = (version, self.format, self.publication.address(&request));
        let text = self.texts.get_with_by_ref(&text, || self.written(&text));
        let mut response = text.answer(request.headers());
        if !self.publication.trusted_proxies.is_empty() {
            response.headers_mut().insert(header::VARY, VARY);
        }
        Ok(response)
    }
}

impl Served {
    fn written(&self, (version, format, address): &(Version, Format, String)) -> StaticFile {
        let content_type = match format {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
        };
        let text = self.publication.document.text(*version, *format, address);
        StaticFile::kept_for_an_hour(content_type, text)
    }
}
