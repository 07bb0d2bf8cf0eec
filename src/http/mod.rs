//! What every HTTP API of this service is built from: parameters, errors, request ids, conditional
//! requests, reports of proxies, static files and the OpenAPI document. It knows no operation and no
//! store.

pub(crate) mod conditional;
pub(crate) mod document;
pub(crate) mod error;
pub(crate) mod failure_log;
mod forwarded;
pub(crate) mod header_text;
pub(crate) mod headers;
pub(crate) mod methods;
pub(crate) mod parameter;
mod raw_query;
pub(crate) mod request_id;
pub(crate) mod static_file;
pub(crate) mod swagger_ui;
pub(crate) mod template;
pub(crate) mod trusted_proxies;
pub(crate) mod unknown_pages;
