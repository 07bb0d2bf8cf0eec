//! The routes of the pages.

use std::sync::Arc;

use poem::Route;

use super::document::{DOCUMENT_PATHS, DocumentTexts};
use super::files::files;
use super::front::FrontPage;
use crate::api::document::Document;
use crate::api::error::ApiError;
use crate::http::methods::MethodRoutes;
use crate::http::static_file::{HTML, StaticFile};
use crate::http::trusted_proxies::TrustedProxies;
use crate::ops::{CheckDependencies, Health};

/// What the pages show.
pub struct Pages {
    /// The document that they describe.
    pub document: Document,
    /// The address of the service, if it is configured.
    pub public_url: Option<String>,
    /// The proxies that may report the address otherwise.
    pub trusted_proxies: TrustedProxies,
    /// Readiness, for the front page.
    pub health: Arc<Health>,
    /// State of the dependencies, for the front page.
    pub dependencies: CheckDependencies,
}

/// The paths of all pages and files.
pub(in crate::api) fn page_paths() -> impl Iterator<Item = &'static str> {
    let documents = DOCUMENT_PATHS.into_iter().map(|(path, _)| path);
    ["/"].into_iter().chain(documents).chain(files().map(|(path, ..)| path))
}

/// The paths of the pages alone, except the front page.
pub(in crate::api) fn html_paths() -> impl Iterator<Item = &'static str> {
    files().filter(|(_, content_type, _)| *content_type == HTML).map(|(path, ..)| path)
}

impl Pages {
    /// Adds the routes of all pages.
    pub(in crate::api) fn add_to(self, route: Route) -> Route {
        let Self { document, public_url, trusted_proxies, health, dependencies } = self;
        let front = FrontPage::new(public_url.as_deref(), health, dependencies);
        let document = DocumentTexts::new(document, public_url, trusted_proxies);
        let route = document.add_to(route.at("/", MethodRoutes::<ApiError>::of_page(front)));
        files().fold(route, |route, (path, content_type, text)| {
            route.at(path, MethodRoutes::<ApiError>::of_page(StaticFile::new(content_type, text)))
        })
    }
}
