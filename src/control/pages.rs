//! The pages of the control listener: Swagger UI, and the keys of a user who logs in there.

use std::sync::Arc;

use poem::error::ResponseError;
use poem::http::{HeaderValue, StatusCode, header};
use poem::{Endpoint, Request, Response, Result, Route};
use serde_json::{Value, json};

use super::document::{OPENAPI_PATH, document};
use super::error::ControlApiError;
use super::identity::{Identities, LoginEndpoints};
use super::login::login_methods;
use crate::config::ControlConfig;
use crate::http::headers::NO_STORE;
use crate::http::methods::MethodRoutes;
use crate::http::static_file::{HTML, JSON, PageFile, SCRIPT, STYLE, StaticFile, add_page_policy};
use crate::http::swagger_ui;

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
    let document = document(config.public_url.as_deref());
    let document = StaticFile::cached_for_an_hour(JSON, document);
    let login = Arc::new(WebLogin { config: config.clone(), identities: Arc::clone(identities) });
    let route = OWN_FILES
        .into_iter()
        .chain(swagger_ui::FILES)
        .map(|(path, kind, text)| (path, StaticFile::new(kind, text)))
        .chain([(OPENAPI_PATH, document)])
        .fold(route, |route, (path, file)| {
            route.at(path, MethodRoutes::<ControlApiError>::of_page(file))
        });
    route
        .at("/", MethodRoutes::<ControlApiError>::of_page(RedirectToDocs))
        .at("/keys", MethodRoutes::<ControlApiError>::of_page(KeysPage(Arc::clone(&login))))
        .at("/keys/login.json", MethodRoutes::<ControlApiError>::of_page(LoginSettings(login)))
}

/// Redirects the root to the page with Swagger UI.
struct RedirectToDocs;

impl Endpoint for RedirectToDocs {
    type Output = Response;

    async fn call(&self, _: Request) -> Result<Response> {
        let response = Response::builder().status(StatusCode::FOUND);
        Ok(response.header(header::LOCATION, "docs").finish())
    }
}

/// How browsers log in.
struct WebLogin {
    config: ControlConfig,
    identities: Arc<Identities>,
}

impl WebLogin {
    /// The endpoints of the issuer; `None` without one, or while it is unavailable.
    async fn endpoints(&self) -> Option<LoginEndpoints> {
        self.identities.login_endpoints().await
    }

    async fn settings(&self) -> Value {
        let oidc = &self.config.oidc;
        let endpoints = self.endpoints().await.map(|endpoints| {
            json!({
                "issuer": oidc.issuer,
                "client_id": oidc.client_id,
                "scopes": oidc.scopes,
                "resource": oidc.resource,
                "authorization_endpoint": endpoints.authorization.as_str(),
                "token_endpoint": endpoints.token.as_str(),
                "sends_issuer": endpoints.sends_issuer,
            })
        });
        json!({ "methods": login_methods(&self.config), "oidc": endpoints })
    }
}

/// The page. Its policy allows requests to the issuer's token endpoint, too.
struct KeysPage(Arc<WebLogin>);

impl Endpoint for KeysPage {
    type Output = Response;

    async fn call(&self, _: Request) -> Result<Response> {
        let text = include_str!("pages/keys/index.html");
        let mut response = Response::builder().content_type(HTML).body(text);
        let headers = response.headers_mut();
        add_page_policy(headers);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        let token_origin = self.0.endpoints().await.map(|endpoints| endpoints.token.origin());
        if let Some(origin) = token_origin.map(|origin| origin.ascii_serialization())
            && let Some(policy) = headers.get_mut(header::CONTENT_SECURITY_POLICY)
        {
            let own = policy.to_str().unwrap_or_default();
            let extended =
                own.replace("connect-src 'self'", &format!("connect-src 'self' {origin}"));
            match HeaderValue::try_from(extended) {
                Ok(extended) => *policy = extended,
                // No such origin can be in a URL.
                Err(_) => return Ok(ControlApiError::Internal.as_response()),
            }
        }
        Ok(response)
    }
}

/// How to log in, for the page.
struct LoginSettings(Arc<WebLogin>);

impl Endpoint for LoginSettings {
    type Output = Response;

    async fn call(&self, _: Request) -> Result<Response> {
        let settings = self.0.settings().await.to_string();
        let mut response = Response::builder().content_type(JSON).body(settings);
        response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
        Ok(response)
    }
}
