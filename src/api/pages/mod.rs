//! What is served without a key: the document, and the pages for people. Nothing of it is
//! counted. All references are relative, so that it works under any path prefix.

mod document;
mod front;
mod static_file;

use std::sync::Arc;

use poem::http::{HeaderMap, HeaderValue, Method, header};
use poem::{Request, Route};

use self::document::DocumentEndpoint;
use self::front::Front;
pub(crate) use self::static_file::StaticFile;
use super::document::Document;
use super::error::ApiError;
use super::forwarded::TrustedProxies;
use crate::ops::{CheckDependencies, Health};

/// Nothing but this service's own files; no inline scripts or styles; no other site.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal, $content_type:expr, $file:literal;)*) => {
        [$(($path, $content_type, include_bytes!($file).as_slice())),*]
    };
}

const FILES: [(&str, &str, &[u8]); 21] = files! {
    "/assets/style.css", STYLE, "assets/style.css";
    "/assets/icon.svg", ICON, "assets/icon.svg";
    "/assets/front.css", STYLE, "front/front.css";
    "/assets/front.js", SCRIPT, "front/front.js";
    "/docs", HTML, "docs/index.html";
    "/docs/init.js", SCRIPT, "docs/init.js";
    "/docs/swagger.js", SCRIPT, "docs/swagger.js";
    "/docs/docs.css", STYLE, "docs/docs.css";
    "/docs/swagger-ui-bundle.js", SCRIPT, "swagger_ui/swagger-ui-bundle.js";
    "/docs/swagger-ui.css", STYLE, "swagger_ui/swagger-ui.css";
    "/arena", HTML, "arena/index.html";
    "/arena/arena.css", STYLE, "arena/arena.css";
    "/arena/main.js", SCRIPT, "arena/main.js";
    "/arena/api.js", SCRIPT, "arena/api.js";
    "/arena/key.js", SCRIPT, "arena/key.js";
    "/arena/dom.js", SCRIPT, "arena/dom.js";
    "/arena/trouble.js", SCRIPT, "arena/trouble.js";
    "/arena/overview.js", SCRIPT, "arena/overview.js";
    "/arena/plots.js", SCRIPT, "arena/plots.js";
    "/arena/table.js", SCRIPT, "arena/table.js";
    "/arena/phenotype.js", SCRIPT, "arena/phenotype.js";
};

/// Of these, what any page with Swagger UI is made of.
const SWAGGER_UI: [&str; 6] = [
    "/assets/style.css",
    "/assets/icon.svg",
    "/docs/docs.css",
    "/docs/swagger.js",
    "/docs/swagger-ui-bundle.js",
    "/docs/swagger-ui.css",
];

/// What a page with Swagger UI is made of, but for the page itself and `/docs/init.js`.
pub(crate) fn swagger_ui() -> impl Iterator<Item = (&'static str, StaticFile)> {
    let files = FILES.into_iter().filter(|(path, ..)| SWAGGER_UI.contains(path));
    files.map(|(path, content_type, body)| (path, StaticFile::new(content_type, body)))
}

/// What the pages are made of.
pub struct Pages {
    /// What they describe.
    pub document: Document,
    /// Where the service is reached, if that is configured.
    pub public_url: Option<String>,
    /// Who else may say so.
    pub trusted_proxies: TrustedProxies,
    /// Readiness, for the front page.
    pub health: Arc<Health>,
    /// How the dependencies are, for the front page.
    pub dependencies: CheckDependencies,
}

/// Every path that is served here.
pub(super) fn paths() -> impl Iterator<Item = &'static str> {
    let documents = document::PATHS.into_iter().map(|(path, _)| path);
    ["/"].into_iter().chain(documents).chain(FILES.into_iter().map(|(path, ..)| path))
}

impl Pages {
    pub(super) fn add_to(self, route: Route) -> Route {
        let Self { document, public_url, trusted_proxies, health, dependencies } = self;
        let front = Front::new(public_url.as_deref(), health, dependencies);
        let publication = DocumentEndpoint { document, public_url, trusted_proxies };
        let route = publication.add_to(route.at("/", front));
        FILES.into_iter().fold(route, |route, (path, content_type, body)| {
            route.at(path, StaticFile::new(content_type, body))
        })
    }
}

fn add_policy(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

fn get_or_head(request: &Request) -> Result<(), ApiError> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(ApiError::MethodNotAllowed { allow: "GET, HEAD" }),
    }
}
