//! The domain: the three requests in canonical form, the values they answer with, and the
//! arena's formulas.
//!
//! Nothing in here knows HTTP, SQL or Redis. Values are parsed once, at the edge, into types
//! that cannot be wrong; what an upstream delivers passes through [`RawGene`], the one place
//! that decides what an empty field means and which row breaks the contract.

mod api_key;
pub mod arena;
mod gene;
mod label;
mod number;
mod page;
mod phenotype;
mod raw;
mod request;
mod time;

pub use api_key::{ApiKeyRecord, KeyHash, KeyId};
pub use gene::{
    ArenaHistoryEntry, ArenaInsights, Compatibility, Fidelity, GeneId, GenePage, GenePhenotype,
    GeneSummary, InvalidGeneId, TopGene, Trend, UnknownFidelity,
};
pub use label::{LABEL, LONGEST_LABEL, is_deceptive, is_label};
pub use number::{Count, MAX_SAFE_INTEGER};
pub use page::{Page, PageLimit, PageOffset};
pub use phenotype::Phenotype;
pub use raw::{ContractBreach, RawEvaluation, RawGene};
pub use request::{DomainName, GeneFilter, GeneSearch, InvalidDomain, Request, Sort, UnknownSort};
pub use time::{Timestamp, rfc3339_seconds};
