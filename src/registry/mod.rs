//! The domain: the three requests in canonical form, the values of their responses, and the arena's
//! formulas.
//!
//! This module contains no HTTP, SQL or Redis. Values are parsed once, at the edge, into types that
//! cannot be invalid. Rows of an upstream are converted by [`RawGene`] alone, which defines the
//! values of empty fields and rejects rows that violate the contract.

mod api_key;
pub mod arena;
mod catalogue;
mod deceptive;
mod gene;
mod json_text;
mod label;
mod number;
mod numbers;
mod page;
mod phenotype;
mod raw;
mod request;
mod scope;
mod time;

pub use api_key::{ApiKeyRecord, KeyHash, KeyId};
pub use catalogue::{Catalogue, CatalogueEvaluation, CatalogueGene};
pub use deceptive::{deceptions, is_deceptive};
pub use gene::{
    ArenaHistoryEntry, ArenaInsights, Compatibility, Fidelity, GeneCounts, GeneId, GenePage,
    GenePhenotype, GeneSummary, InvalidGeneId, TopGene, Trend, UnknownFidelity,
};
pub use json_text::JsonText;
pub use label::{LABEL, MAX_LABEL_LENGTH, is_label};
pub use number::{Count, MAX_SAFE_INTEGER};
pub use numbers::{DomainCount, RegistryNumbers};
pub use page::{Page, PageLimit, PageOffset};
pub use phenotype::Phenotype;
pub use raw::{ContractBreach, RawEvaluation, RawGene};
pub use request::{DomainName, GeneFilter, GeneSearch, InvalidDomain, Request, Sort, UnknownSort};
pub use scope::{READ_SCOPE, SCOPE, is_scope};
pub use time::{Timestamp, rfc3339_seconds};
