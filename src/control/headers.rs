//! Headers of every response of the control API.

use poem::http::{HeaderMap, HeaderValue, header};

use crate::http::headers::{JSON, NO_STORE};

const VARY: HeaderValue = HeaderValue::from_static("Authorization");

/// Adds the headers: JSON for this caller only, which nothing may store.
pub(super) fn add_headers(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::VARY, VARY);
}
