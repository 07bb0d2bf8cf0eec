//! Building blocks of OpenAPI documents: from the framework's description of the operations to a
//! document that clients can be generated from.

mod forbid;
mod format;
mod generate;
mod normalize;
mod responses;
mod security;
mod time;
mod version;

pub(crate) use forbid::{CONTROLS, forbid};
pub(crate) use format::DocumentFormat;
pub(crate) use generate::openapi_document;
pub(crate) use normalize::in_order;
pub(crate) use responses::{DocumentedHeader, UNCACHED_HEADERS, header, integer, response, text};
pub(crate) use security::require_credentials;
pub(crate) use time::Time;
pub(crate) use version::OpenApiVersion;
