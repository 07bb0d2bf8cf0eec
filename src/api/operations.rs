//! The three operations together, for the routes and for the document.

use super::genes::Genes;
use super::insights::Insights;
use super::phenotype::Phenotypes;
use crate::cache::ReadThrough;

/// The three operations.
pub(super) type PublicOperations = (Genes, Phenotypes, Insights);

/// The operations that read through this cache.
pub(super) fn operations(reads: ReadThrough) -> PublicOperations {
    (Genes(reads.clone()), Phenotypes(reads.clone()), Insights(reads))
}
