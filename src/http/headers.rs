//! Names and values of headers that responses of every API carry.

use poem::http::{HeaderName, HeaderValue};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const GZIP: HeaderValue = HeaderValue::from_static("gzip");
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
