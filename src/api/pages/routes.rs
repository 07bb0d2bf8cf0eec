//! The routes of the pages.

use poem::Route;

use super::content::Pages;
use super::document::{DOCUMENT_PATHS, DocumentTexts};
use super::files::files;
use super::front::FrontPage;
use crate::api::error::ApiError;
use crate::http::methods::MethodRoutes;
use crate::http::static_file::{HTML, StaticFile};

/// The path of the public numbers.
const NUMBERS: &str = "/domains.json";

/// The paths of all pages and files.
pub(in crate::api) fn page_paths() -> impl Iterator<Item = &'static str> {
    let documents = DOCUMENT_PATHS.into_iter().map(|(path, _)| path);
    ["/", NUMBERS].into_iter().chain(documents).chain(files().map(|(path, ..)| path))
}

/// The paths of the pages alone, except the front page.
pub(in crate::api) fn html_paths() -> impl Iterator<Item = &'static str> {
    files().filter(|(_, content_type, _)| *content_type == HTML).map(|(path, ..)| path)
}

impl Pages {
    /// Adds the routes of all pages.
    pub(in crate::api) fn add_to(self, route: Route) -> Route {
        let numbers = MethodRoutes::<ApiError>::of_page(self.numbers.clone());
        let front = MethodRoutes::<ApiError>::of_page(FrontPage::new(&self));
        let route = DocumentTexts::new(self).add_to(route.at("/", front).at(NUMBERS, numbers));
        files().fold(route, |route, (path, content_type, text)| {
            route.at(path, MethodRoutes::<ApiError>::of_page(StaticFile::new(content_type, text)))
        })
    }
}
