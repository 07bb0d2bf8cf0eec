//! The public API: operations, parameters, access control, errors, pages, and the document that
//! describes them.

mod access_control;
mod cors;
mod document;
mod error;
mod headers;
mod hsts;
pub mod model;
mod negotiation;
mod operations;
mod pages;
mod parameters;
mod public;
mod reply;

pub use crate::http::trusted_proxies::TrustedProxies;
pub use access_control::AccessControl;
pub use document::Document;
pub use pages::{Leader, Pages, PublicNumbers, SharedNumbers};
pub use public::{Observability, PublicApi};
