//! The public API: parameters, handlers, answers, and the document that describes them.

mod conditional;
mod cors;
mod document;
mod error;
mod examples;
mod genes;
mod guard;
mod headers;
mod insights;
pub mod model;
mod pages;
mod phenotype;
mod public;
mod query;
mod reply;
mod security;
mod tags;

pub use document::Document;
pub use error::{ApiError, ErrorCode};
pub use guard::Gate;
pub use pages::Pages;
pub use public::{PublicApi, Watch};

use crate::cache::ReadThrough;

/// The three operations.
type Operations = (genes::Genes, phenotype::Phenotypes, insights::Insights);

fn operations(reads: ReadThrough) -> Operations {
    (genes::Genes(reads.clone()), phenotype::Phenotypes(reads.clone()), insights::Insights(reads))
}
