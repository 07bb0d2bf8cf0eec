//! The values in the responses of the three operations. The order of fields is the order in JSON.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;
use uuid::Uuid;

use super::number::Count;
use super::page::Page;
use super::phenotype::Phenotype;
use super::time::{Timestamp, rfc3339_seconds};

/// A gene's identifier: a UUID of any version, including the nil UUID. Written in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct GeneId(Uuid);

/// The text is not 8-4-4-4-12 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a UUID of 8-4-4-4-12 hexadecimal digits")]
pub struct InvalidGeneId;

impl GeneId {
    /// The identifier as a UUID.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for GeneId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl FromStr for GeneId {
    type Err = InvalidGeneId;

    /// Accepts only the hyphenated form, in any case. The uuid crate also accepts braces,
    /// `urn:uuid:` and bare digits, which would give one gene several URLs.
    fn from_str(text: &str) -> Result<Self, InvalidGeneId> {
        if text.len() != uuid::fmt::Hyphenated::LENGTH {
            return Err(InvalidGeneId);
        }
        Uuid::try_parse(text).map(Self).map_err(|_| InvalidGeneId)
    }
}

impl fmt::Display for GeneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

/// How deeply a gene is integrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Fidelity {
    /// Wraps something that exists elsewhere.
    Wrapped,
    /// Partly native.
    Hybrid,
    /// Native throughout.
    Native,
}

/// The text is none of the fidelity values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not one of Wrapped, Hybrid, Native")]
pub struct UnknownFidelity;

impl Fidelity {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Wrapped, Self::Hybrid, Self::Native];

    /// The value in requests and responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wrapped => "Wrapped",
            Self::Hybrid => "Hybrid",
            Self::Native => "Native",
        }
    }
}

impl FromStr for Fidelity {
    type Err = UnknownFidelity;

    fn from_str(text: &str) -> Result<Self, UnknownFidelity> {
        Self::ALL.into_iter().find(|f| f.as_str() == text).ok_or(UnknownFidelity)
    }
}

/// One evaluation of a gene in the arena.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArenaHistoryEntry {
    /// The fitness: finite, not negative; may exceed 1.
    pub fitness_value: f64,
    /// The time; written in RFC 3339, UTC, whole seconds.
    #[serde(serialize_with = "as_rfc3339_seconds")]
    pub evaluated_at: Timestamp,
    /// Calls made in this evaluation.
    pub total_calls: Count,
}

fn as_rfc3339_seconds<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339_seconds(*at))
}

/// One gene in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GeneSummary {
    /// Identifier.
    pub id: GeneId,
    /// Name.
    pub name: String,
    /// Dotted domain name.
    pub domain: String,
    /// Depth of integration.
    pub fidelity: Fidelity,
    /// Free text.
    pub description: String,
    /// Finite, not negative; 0 for a gene never evaluated; may exceed 1.
    pub fitness_score: f64,
    /// Finite.
    pub reputation_score: f64,
    /// Owner's handle.
    pub owner: String,
    /// Number of installations.
    pub downloads: Count,
    /// Rank in its domain by fitness, from 1; 0 means unranked.
    pub arena_rank: Count,
    /// Newest first, at most [`GeneSummary::HISTORY_LENGTH`].
    pub arena_history: Vec<ArenaHistoryEntry>,
}

impl GeneSummary {
    /// Maximum number of entries of `arena_history`.
    pub const HISTORY_LENGTH: usize = 10;
}

/// One page of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GenePage {
    /// The genes, best first.
    pub data: Vec<GeneSummary>,
    /// Number of matching genes on all pages.
    pub total: Count,
    /// The page size that was applied.
    pub limit: u8,
    /// The offset that was applied.
    pub offset: u32,
    /// See [`GeneCounts::broken`]; not shown.
    #[serde(skip)]
    pub broken: Count,
}

impl GenePage {
    /// The page with these genes.
    pub const fn new(page: Page, data: Vec<GeneSummary>, counts: GeneCounts) -> Self {
        let GeneCounts { total, broken } = counts;
        Self { data, total, limit: page.limit(), offset: page.offset(), broken }
    }

    /// How many genes its filter matches.
    pub const fn counts(&self) -> GeneCounts {
        GeneCounts { total: self.total, broken: self.broken }
    }
}

/// How many genes a filter matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneCounts {
    /// The `total` of each page.
    pub total: Count,
    /// Genes that match and are left out, because they violate the contract of the views.
    pub broken: Count,
}

/// The requirements for running a gene.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compatibility {
    /// Dotted version number; `0.0.0` if any version will do.
    pub min_playground_version: String,
    /// The fidelity at which it must run.
    pub required_fidelity: Fidelity,
}

/// A gene's public phenotype.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GenePhenotype {
    /// Identifier.
    pub id: GeneId,
    /// Name.
    pub name: String,
    /// Dotted domain name.
    pub domain: String,
    /// Depth of integration.
    pub fidelity: Fidelity,
    /// The schemas of its input and output.
    pub phenotype: Phenotype,
    /// As in [`GeneSummary`].
    pub fitness_score: f64,
    /// As in [`GeneSummary`].
    pub reputation_score: f64,
    /// A shell command line that installs the gene.
    pub install_command: String,
    /// What it needs to run.
    pub compatibility: Compatibility,
}

/// The direction of a gene's fitness; see [`super::arena::trend`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    /// Over 2 % above the mean of the evaluations before.
    Rising,
    /// Within 2 %, or fewer than two evaluations.
    Stable,
    /// Over 2 % below.
    Declining,
}

/// One of a domain's best genes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopGene {
    /// Name.
    pub name: String,
    /// Its `fitness_score`.
    pub fitness: f64,
    /// The direction of its fitness.
    pub trend: Trend,
}

/// The health of a domain's arena. The formulas are in [`super::arena`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArenaInsights {
    /// The requested domain.
    pub domain: String,
    /// Published genes.
    pub gene_count: Count,
    /// Shannon entropy H' of fitness shares, in nats; not negative.
    pub shannon_diversity: f64,
    /// Fraction of the top five of 30 days ago that has been replaced, 0 to 1.
    pub turnover_rate: f64,
    /// The best evaluated genes, at most five.
    pub top_genes: Vec<TopGene>,
    /// Mean fitness of evaluated genes; 0 without any.
    pub avg_fitness: f64,
    /// Evaluation records of the published genes.
    pub total_arena_evaluations: Count,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_in_one_form_and_written_in_lower_case() {
        let id: GeneId = "0A1B2C3D-0000-1000-8000-00805F9B34FB".parse().expect("an id");
        assert_eq!(id.to_string(), "0a1b2c3d-0000-1000-8000-00805f9b34fb");
        assert!("00000000-0000-0000-0000-000000000000".parse::<GeneId>().is_ok());
        for wrong in [
            "",
            "0a1b2c3d00001000800000805f9b34fb",
            "{0a1b2c3d-0000-1000-8000-00805f9b34fb}",
            "urn:uuid:0a1b2c3d-0000-1000-8000-00805f9b34fb",
            "0a1b2c3d-0000-1000-8000-00805f9b34fg",
            "0a1b2c3d-00001-000-8000-00805f9b34fb",
            "0a1b2c3d-0000-1000-8000-00805f9b34fb ",
            "0a1b2c3d-0000-1000-8000-00805f9b34é",
        ] {
            assert_eq!(wrong.parse::<GeneId>(), Err(InvalidGeneId), "{wrong:?}");
        }
    }

    #[test]
    fn fidelity_is_matched_exactly() {
        assert_eq!("Hybrid".parse(), Ok(Fidelity::Hybrid));
        for wrong in ["", "hybrid", "HYBRID", " Hybrid", "Wrapped,Native"] {
            assert_eq!(wrong.parse::<Fidelity>(), Err(UnknownFidelity), "{wrong:?}");
        }
    }
}
