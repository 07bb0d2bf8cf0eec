//! The public API: operations, parameters, access control, errors, pages, and the document that
//! describes them.

mod access_control;
mod api_key_scheme;
mod conditions;
mod cors;
mod document;
mod error;
mod forwarded;
mod genes;
mod headers;
mod insights;
pub mod model;
mod operations;
mod pages;
mod parameters;
mod phenotype;
mod public;
mod reply;
mod tags;

pub use access_control::AccessControl;
pub use document::{Document, DocumentFormat, OpenApiVersion};
pub use forwarded::TrustedProxies;
pub use pages::Pages;
pub use public::{Observability, PublicApi};
