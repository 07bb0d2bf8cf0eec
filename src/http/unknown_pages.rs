//! What is served where nothing else is: pages with a slash too many redirect, browsers get a page, and
//! other clients the error as JSON.

use bytes::Bytes;
use poem::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use poem::{Request, Response};

use super::error::ErrorResponse;
use super::headers::NO_STORE;
use super::static_file::{HTML, add_page_policy};
use super::template::Template;

const ACCEPT: HeaderValue = HeaderValue::from_static("Accept");

/// Addresses in more folders get no page, whose links back would be long.
const MAX_FOLDERS: usize = 32;

/// A longer query is left out of redirects, in bytes.
const MAX_QUERY: usize = 8_192;

/// Responds where no route exists.
pub(crate) struct UnknownPages {
    text: Template,
    /// The paths of pages; a segment that begins with a colon stands for any.
    pages: Vec<&'static str>,
    /// Where the paths of operations begin.
    operations: &'static str,
    /// The pages to go to: path without the slash at its start, and name.
    links: &'static [(&'static str, &'static str)],
}

/// What is remembered of a request outside the operations.
pub(crate) struct PageRequest {
    uri: Uri,
    accepts_html: bool,
}

impl UnknownPages {
    /// `pages`: the paths of all pages. `operations`: where the paths of operations begin, with slashes
    /// around. `links`: the pages to go to, each its path without the slash at its start, and its name.
    pub(crate) fn new(
        pages: impl Iterator<Item = &'static str>,
        operations: &'static str,
        links: &'static [(&'static str, &'static str)],
    ) -> Self {
        let text = Template::new(include_str!("assets/unknown.html"));
        Self { text, pages: pages.collect(), operations, links }
    }

    /// What to remember of a request in case that it has no route; `None` for requests of operations,
    /// and for those that do not read.
    pub(crate) fn request(&self, request: &Request) -> Option<Box<PageRequest>> {
        let (uri, reads) = (request.uri(), [Method::GET, Method::HEAD].contains(request.method()));
        (reads && !uri.path().starts_with(self.operations)).then(|| {
            let accepts_html = accepts_html(request.headers());
            Box::new(PageRequest { uri: uri.clone(), accepts_html })
        })
    }

    /// The response to a request that has no route.
    pub(crate) fn response<E: ErrorResponse>(&self, request: &PageRequest) -> Response {
        let path = request.uri.path();
        if let Some(page) = path.strip_suffix('/').filter(|page| self.is_page(page)) {
            return redirect(page, request.uri.query());
        }
        let folders = path.matches('/').count().saturating_sub(1);
        let mut response = if request.accepts_html && folders <= MAX_FOLDERS {
            self.not_found(folders)
        } else {
            E::UNKNOWN_ROUTE.as_response()
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

    fn not_found(&self, folders: usize) -> Response {
        let root = if folders == 0 { "./".to_owned() } else { "../".repeat(folders) };
        let link =
            |(path, name)| format!(r#"<a class="button quiet" href="{root}{path}">{name}</a>"#);
        let links: String = self.links.iter().copied().map(link).collect();
        let (root, links) = (Bytes::from(root), Bytes::from(links));
        let page = self.text.filled(|name| if name == "root" { &root } else { &links }.clone());
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
    let query = query.filter(|query| query.len() <= MAX_QUERY);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::builder().status(StatusCode::PERMANENT_REDIRECT).finish();
    if let Ok(location) = HeaderValue::try_from(format!("../{name}{query}")) {
        response.headers_mut().insert(header::LOCATION, location);
        response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
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
