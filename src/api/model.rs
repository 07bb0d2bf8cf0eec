//! The answers as the document describes them. Answers are written from the domain's own
//! values (`registry/`); a test holds every served answer against these descriptions.

use poem_openapi::registry::{MetaSchema, MetaSchemaRef};
use poem_openapi::{Enum, Object};
use uuid::Uuid;

use super::error::ErrorCode;

/// How deeply a gene is integrated.
#[derive(Enum)]
pub enum Fidelity {
    /// Wraps something that exists elsewhere.
    Wrapped,
    /// Partly native.
    Hybrid,
    /// Native throughout.
    Native,
}

/// Where a gene's fitness is going: its newest evaluation against the mean of the up to four
/// before it. Over 2 % above is `rising`, over 2 % below `declining`; else, or with fewer than
/// two evaluations, `stable`.
#[derive(Enum)]
#[oai(rename_all = "lowercase")]
pub enum Trend {
    /// Over 2 % above.
    Rising,
    /// Within 2 %.
    Stable,
    /// Over 2 % below.
    Declining,
}

/// One evaluation of a gene in the arena.
#[derive(Object)]
pub struct ArenaHistoryEntry {
    /// Fitness found. May exceed 1.
    #[oai(validator(minimum(value = "0")))]
    pub fitness_value: f64,
    /// When it was evaluated: RFC 3339, UTC, whole seconds.
    pub evaluated_at: Time,
    /// Calls made in this evaluation.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub total_calls: i64,
}

/// One gene in a list.
#[derive(Object)]
pub struct GeneSummary {
    /// Identifier, in lower case.
    pub id: Uuid,
    /// Name.
    pub name: String,
    /// Dotted domain name.
    pub domain: String,
    /// How deeply the gene is integrated.
    pub fidelity: Fidelity,
    /// Free text.
    pub description: String,
    /// Fitness in the arena; 0 for a gene never evaluated. May exceed 1.
    #[oai(validator(minimum(value = "0")))]
    pub fitness_score: f64,
    /// Reputation of the gene.
    pub reputation_score: f64,
    /// The owner's handle.
    pub owner: String,
    /// Times installed.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub downloads: i64,
    /// Place in the gene's own domain by fitness descending, then id; from 1. 0 means unranked.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub arena_rank: i64,
    /// Evaluations, newest first, at most 10.
    #[oai(validator(max_items = 10))]
    pub arena_history: Vec<ArenaHistoryEntry>,
}

/// One page of a search.
#[derive(Object)]
pub struct GenePage {
    /// The genes, best first; empty past the end.
    #[oai(validator(max_items = 50))]
    pub data: Vec<GeneSummary>,
    /// Genes that match, on all pages together.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub total: i64,
    /// Page size applied.
    #[oai(validator(minimum(value = "1"), maximum(value = "50")))]
    pub limit: i32,
    /// Offset applied.
    #[oai(validator(minimum(value = "0"), maximum(value = "2147483647")))]
    pub offset: i32,
}

/// What goes into a gene and what comes out.
#[derive(Object)]
pub struct Phenotype {
    /// JSON-Schema-style description of the input.
    pub input: SchemaObject,
    /// JSON-Schema-style description of the output.
    pub output: SchemaObject,
}

/// What a gene needs to run.
#[derive(Object)]
pub struct Compatibility {
    /// The oldest playground version that runs it, a dotted version number; `0.0.0` where any does.
    pub min_playground_version: String,
    /// The fidelity it must be run at.
    pub required_fidelity: Fidelity,
}

/// A gene's public phenotype.
#[derive(Object)]
pub struct GenePhenotype {
    /// Identifier, in lower case.
    pub id: Uuid,
    /// Name.
    pub name: String,
    /// Dotted domain name.
    pub domain: String,
    /// How deeply the gene is integrated.
    pub fidelity: Fidelity,
    /// What goes in and what comes out.
    pub phenotype: Phenotype,
    /// Fitness in the arena; 0 for a gene never evaluated. May exceed 1.
    #[oai(validator(minimum(value = "0")))]
    pub fitness_score: f64,
    /// Reputation of the gene.
    pub reputation_score: f64,
    /// A shell command line that installs the gene.
    pub install_command: String,
    /// What the gene needs to run.
    pub compatibility: Compatibility,
}

/// One of a domain's best genes.
#[derive(Object)]
pub struct TopGene {
    /// Name.
    pub name: String,
    /// Its fitness score.
    #[oai(validator(minimum(value = "0")))]
    pub fitness: f64,
    /// Where its fitness is going.
    pub trend: Trend,
}

/// The health of a domain's arena.
#[derive(Object)]
pub struct ArenaInsights {
    /// The domain asked for.
    pub domain: String,
    /// Published genes of the domain.
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub gene_count: i64,
    /// Shannon entropy H' = -Σ p ln p (natural logarithm), p = a gene's share of the domain's
    /// total fitness; zero shares are skipped; 0 with fewer than two. Higher means healthier
    /// competition; ln(gene_count) is the most there can be.
    #[oai(validator(minimum(value = "0")))]
    pub shannon_diversity: f64,
    /// Of the genes that were the top 5 thirty days ago (evaluated genes, by their newest
    /// evaluation at or before that moment, then id), the fraction that is not in today's top 5;
    /// 0 if there were none. Genes unpublished since do not count.
    #[oai(validator(minimum(value = "0"), maximum(value = "1")))]
    pub turnover_rate: f64,
    /// Evaluated genes by fitness descending, then id; five at most.
    #[oai(validator(max_items = 5))]
    pub top_genes: Vec<TopGene>,
    /// Mean fitness of the evaluated genes; 0 without any.
    #[oai(validator(minimum(value = "0")))]
    pub avg_fitness: f64,
    /// Evaluation records of the domain's published genes.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub total_arena_evaluations: i64,
}

/// Every error has this body.
#[derive(Object)]
pub struct Error {
    /// What was wrong and what is allowed, for people. The wording may change.
    pub error: String,
    /// What was wrong, for programs.
    pub code: ErrorCode,
}

/// A type that stands in the document alone: its values are never made here.
macro_rules! documented {
    ($(#[$doc:meta])* $vis:vis $type:ident, $name:literal, $schema:expr) => {
        $(#[$doc])*
        $vis struct $type(serde_json::Value);

        impl poem_openapi::types::Type for $type {
            const IS_REQUIRED: bool = true;
            type RawValueType = Self;
            type RawElementValueType = Self;

            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn schema_ref() -> poem_openapi::registry::MetaSchemaRef {
                poem_openapi::registry::MetaSchemaRef::Inline(Box::new($schema))
            }

            fn register(_: &mut poem_openapi::registry::Registry) {}

            fn as_raw_value(&self) -> Option<&Self> {
                Some(self)
            }

            fn raw_element_iter<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Self> + 'a> {
                Box::new(std::iter::empty())
            }
        }

        impl poem_openapi::types::ToJSON for $type {
            fn to_json(&self) -> Option<serde_json::Value> {
                Some(self.0.clone())
            }
        }

        impl poem_openapi::types::ParseFromJSON for $type {
            fn parse_from_json(value: Option<serde_json::Value>) -> poem_openapi::types::ParseResult<Self> {
                Ok(Self(value.unwrap_or_default()))
            }
        }
    };
}
pub(crate) use documented;

documented!(
    /// A JSON-Schema-style description: an object with any members.
    pub SchemaObject,
    "object",
    MetaSchema {
        additional_properties: Some(Box::new(MetaSchemaRef::Inline(Box::new(MetaSchema::ANY)))),
        ..MetaSchema::new("object")
    }
);

documented!(
    /// A moment: RFC 3339, UTC, whole seconds.
    pub Time,
    "string_date-time",
    MetaSchema::new_with_format("string", "date-time")
);
