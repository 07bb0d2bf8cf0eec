//! What is served where nothing else is: pages with a slash too many redirect, browsers get a page, and
//! other clients the error as JSON.

use bytes::Bytes;
use poem::error::ResponseError;
use poem::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use poem::{Request, Response};

use super::template::Template;
use crate::api::error::ApiError;
use crate::http::headers::NO_STORE;
use crate::http::static_file::{HTML, add_page_policy};

const ACCEPT: HeaderValue = HeaderValue::from_static("Accept");

/// Responds where no route exists.
pub(in crate::api) struct UnknownPages {
    page: Template,
    /// The paths of pages; a segment that begins with a colon stands for any.
    pages: Vec<&'static str>,
}

/// A request outside the operations, in case that it has no route.
pub(in crate::api) struct PageRequest {
    uri: Uri,
    accepts_html: bool,
}

impl PageRequest {
    /// `None` for requests of operations, and for those that do not read.
    pub(in crate::api) fn of(request: &Request) -> Option<Box<Self>> {
        let (uri, method) = (request.uri(), request.method());
        let is_of_page =
            !uri.path().starts_with("/v1/") && (*method == Method::GET || *method == Method::HEAD);
        is_of_page.then(|| {
            Box::new(Self { uri: uri.clone(), accepts_html: accepts_html(request.headers()) })
        })
    }
}

impl UnknownPages {
    /// `pages`: the paths of all pages.
    pub(in crate::api) fn new(pages: impl Iterator<Item = &'static str>) -> Self {
        Self { page: Template::new(include_str!("unknown.html")), pages: pages.collect() }
    }

    /// The response to a request that has no route.
    pub(in crate::api) fn response(&self, request: &PageRequest) -> Response {
        let path = request.uri.path();
        if let Some(page) = path.strip_suffix('/').filter(|page| self.is_page(page)) {
            return redirect(page, request.uri.query());
        }
        let mut response = if request.accepts_html {
            self.not_found(path)
        } else {
            ApiError::UnknownRoute.as_response()
        };
        response.headers_mut().insert(header::VARY, ACCEPT);
        response
    }

    /// Whether this is a page, without the slash at its end.
    fn is_page(&self, path: &str) -> bool {
        let is_same = |page: &str| {
            let mut given = path.split('/');
            let is_segment = |expected: &str| {
                given.next().is_some_and(|given| given == expected || expected.starts_with(':'))
            };
            page.split('/').all(is_segment) && given.next().is_none()
        };
        self.pages.iter().any(|page| is_same(page))
    }

    fn not_found(&self, path: &str) -> Response {
        let folders = path.matches('/').count().saturating_sub(1);
        let root = Bytes::from(if folders == 0 { "./".to_owned() } else { "../".repeat(folders) });
        let page = self.page.filled(|_| root.clone());
        let response = Response::builder().status(StatusCode::NOT_FOUND).content_type(HTML);
        let mut response = response.body(page.into_body());
        response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
        add_page_policy(response.headers_mut());
        response
    }
}

/// Leads to a page by a relative reference, which is valid under any path prefix.
fn redirect(page: &str, query: Option<&str>) -> Response {
    let name = page.rsplit('/').next().unwrap_or_default();
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::builder().status(StatusCode::PERMANENT_REDIRECT).finish();
    if let Ok(location) = HeaderValue::try_from(format!("../{name}{query}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Whether the client names HTML, as browsers do.
fn accepts_html(headers: &HeaderMap) -> bool {
    let types = headers.get_all(header::ACCEPT).into_iter();
    types.flat_map(|types| types.to_str().unwrap_or_default().split(',')).any(|one| {
        let name = one.split(';').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case("text/html")
    })
}
