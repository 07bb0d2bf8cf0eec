//! The pages of the control listener: Swagger UI, and the keys of a user who logs in there.

use std::sync::Arc;

use poem::error::ResponseError;
use poem::http::{HeaderValue, StatusCode, header};
use poem::{Endpoint, Request, Response, Result, Route};
use serde_json::{Value, json};

use super::document::{OPENAPI_PATH, control_document};
use super::error::ControlApiError;
use super::identity::{AuthMethod, Identities, LoginEndpoints};
use super::login::login_methods;
use crate::config::{ControlConfig, OidcConfig};
use crate::http::document::{DocumentFormat, OpenApiVersion};
use crate::http::headers::NO_STORE;
use crate::http::methods::MethodRoutes;
use crate::http::parameter::parse_query;
use crate::http::static_file::{HTML, JSON, PageFile, SCRIPT, STYLE, StaticFile, add_page_policy};
use crate::http::swagger_ui;

/// The path of the page on which users manage their keys.
const KEYS: &str = "/keys";

const OWN_FILES: [PageFile; 8] = [
    ("/docs", HTML, include_str!("pages/index.html")),
    ("/docs/init.js", SCRIPT, include_str!("pages/init.js")),
    ("/keys/keys.css", STYLE, include_str!("pages/keys/keys.css")),
    ("/keys/main.js", SCRIPT, include_str!("pages/keys/main.js")),
    ("/keys/api.js", SCRIPT, include_str!("pages/keys/api.js")),
    ("/keys/login.js", SCRIPT, include_str!("pages/keys/login.js")),
    ("/keys/dialog.js", SCRIPT, include_str!("pages/keys/dialog.js")),
    ("/keys/view.js", SCRIPT, include_str!("pages/keys/view.js")),
];

/// Adds the routes of all pages.
pub(super) fn add_pages(
    route: Route,
    config: &ControlConfig,
    identities: &Arc<Identities>,
) -> Route {
    let document = |version| {
        let text = control_document(version, DocumentFormat::Json, config.public_url.as_deref());
        StaticFile::cached_for_an_hour(JSON, text)
    };
    let documents =
        Documents { v30: document(OpenApiVersion::V30), v31: document(OpenApiVersion::V31) };
    let keys_page = KeysPage {
        methods: login_methods(config),
        oidc: config.oidc.clone(),
        identities: Arc::clone(identities),
    };
    let route = OWN_FILES
        .into_iter()
        .chain(swagger_ui::FILES)
        .map(|(path, kind, text)| (path, StaticFile::new(kind, text)))
        .fold(route, |route, (path, file)| {
            route.at(path, MethodRoutes::<ControlApiError>::of_page(file))
        });
    route
        .at(OPENAPI_PATH, MethodRoutes::<ControlApiError>::of_page(documents))
        .at("/", MethodRoutes::<ControlApiError>::of_page(ToKeys))
        .at(KEYS, MethodRoutes::<ControlApiError>::of_page(keys_page))
}

/// The paths of the pages alone.
pub(super) fn html_paths() -> impl Iterator<Item = &'static str> {
    let files = OWN_FILES.into_iter().filter(|(_, content_type, _)| *content_type == HTML);
    files.map(|(path, ..)| path).chain([KEYS])
}

/// The document of the control API, in the requested version.
struct Documents {
    v30: StaticFile,
    v31: StaticFile,
}

impl Endpoint for Documents {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let version = parse_query(request.uri().query().unwrap_or_default(), "version");
        let file = match version.map_err(ControlApiError::from)? {
            OpenApiVersion::V30 => &self.v30,
            OpenApiVersion::V31 => &self.v31,
        };
        Ok(file.response(request.headers()))
    }
}

/// Redirects to the page of the keys, relatively.
struct ToKeys;

impl Endpoint for ToKeys {
    type Output = Response;

    async fn call(&self, _: Request) -> Result<Response> {
        let response = Response::builder().status(StatusCode::FOUND);
        Ok(response.header(header::LOCATION, "keys").finish())
    }
}

/// The page on which users manage their keys. It contains how to log in, and its policy allows requests
/// to the issuer's token endpoint, too.
struct KeysPage {
    methods: Vec<AuthMethod>,
    oidc: OidcConfig,
    identities: Arc<Identities>,
}

impl KeysPage {
    /// How to log in. `endpoints`: those of the issuer; `None` without one, or while it is unavailable.
    fn login(&self, endpoints: Option<&LoginEndpoints>) -> Value {
        let oidc = endpoints.map(|endpoints| {
            json!({
                "issuer": self.oidc.issuer,
                "client_id": self.oidc.client_id,
                "scopes": self.oidc.scopes,
                "resource": self.oidc.resource,
                "authorization_endpoint": endpoints.authorization.as_str(),
                "token_endpoint": endpoints.token.as_str(),
                "sends_issuer": endpoints.sends_issuer,
            })
        });
        json!({ "methods": self.methods, "oidc": oidc })
    }
}

impl Endpoint for KeysPage {
    type Output = Response;

    async fn call(&self, _: Request) -> Result<Response> {
        let endpoints = self.identities.login_endpoints().await;
        let login = self.login(endpoints.as_ref()).to_string();
        // Only for HTML: escapes of deceptive characters, as other pages show them, would break the JSON.
        let login = login.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
        let text = include_str!("pages/keys/index.html").replace("{{login}}", &login);
        let mut response = Response::builder().content_type(HTML).body(text);
        let headers = response.headers_mut();
        add_page_policy(headers);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        if let Some(endpoints) = endpoints
            && let Some(policy) = headers.get_mut(header::CONTENT_SECURITY_POLICY)
        {
            let own = policy.to_str().unwrap_or_default();
            let token_origin = endpoints.token.origin().ascii_serialization();
            let extended =
                own.replace("connect-src 'self'", &format!("connect-src 'self' {token_origin}"));
            match HeaderValue::try_from(extended) {
                Ok(extended) => *policy = extended,
                // No such origin can be in a URL.
                Err(_) => return Ok(ControlApiError::Internal.as_response()),
            }
        }
        Ok(response)
    }
}
