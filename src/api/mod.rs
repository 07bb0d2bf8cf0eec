//! The public API: parameters, handlers, answers, and the document that describes them.

mod conditional;
mod cors;
pub(crate) mod document;
mod error;
mod forwarded;
mod genes;
mod guard;
mod header_text;
pub(crate) mod headers;
mod insights;
pub mod model;
pub(crate) mod pages;
mod phenotype;
mod public;
pub(crate) mod query;
mod raw_query;
mod reply;
pub(crate) mod request_log;
mod security;
mod tags;

pub use document::{Document, Format, Version};
pub use error::{ApiError, ErrorCode};
pub use forwarded::TrustedProxies;
pub use guard::AccessControl;
pub use pages::Pages;
pub use public::{Observability, PublicApi};

use crate::cache::ReadThrough;

/// The three operations.
type Operations = (genes::Genes, phenotype::Phenotypes, insights::Insights);

fn operations(reads: ReadThrough) -> Operations {
    (genes::Genes(reads.clone()), phenotype::Phenotypes(reads.clone()), insights::Insights(reads))
}
