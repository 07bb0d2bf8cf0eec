//! The public API: operations, parameters, access control, errors, pages, and the document that
//! describes them.

mod access_control;
mod cors;
mod document;
mod error;
mod forwarded;
mod headers;
mod hsts;
pub mod model;
mod negotiation;
mod operations;
mod pages;
mod parameters;
mod public;
mod reply;

pub use access_control::AccessControl;
pub use document::{Document, DocumentFormat, OpenApiVersion};
pub use forwarded::TrustedProxies;
pub use pages::Pages;
pub use public::{Observability, PublicApi};
