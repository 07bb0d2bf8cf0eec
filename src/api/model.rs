//! The bodies of responses as the document describes them, under the names that the schemas have
//! there. The bodies are written from the values in `registry/`; tests compare every served body
//! with these descriptions.

use std::collections::HashMap;

use poem_openapi::types::Any;
use poem_openapi::{Enum, Object};
use serde_json::Value;
use uuid::Uuid;

use super::error::ErrorCode;
use crate::http::document::Time;

/// An object with any members.
type AnyObject = HashMap<String, Any<Value>>;

/// How deeply a gene is integrated.
#[derive(Enum)]
pub enum Fidelity {
    /// Wraps an implementation that exists elsewhere.
    Wrapped,
    /// Partly native.
    Hybrid,
    /// Native throughout.
    Native,
}

/// The value by which genes are ranked, highest first.
#[derive(Enum)]
#[oai(rename_all = "lowercase")]
pub enum GeneOrder {
    /// `fitness_score`.
    Fitness,
    /// `reputation_score`.
    Reputation,
    /// `downloads`.
    Downloads,
}

/// Trend of a gene's fitness: its latest evaluation compared with the average of up to four before
/// it. More than 2 % above is `rising`, more than 2 % below `declining`; otherwise, and with fewer
/// than two evaluations, `stable`.
#[derive(Enum)]
#[oai(rename_all = "lowercase")]
pub enum Trend {
    /// More than 2 % above.
    Rising,
    /// Within 2 %.
    Stable,
    /// More than 2 % below.
    Declining,
}

/// One evaluation of a gene in the arena.
#[derive(Object)]
pub struct ArenaHistoryEntry {
    /// Measured fitness; may exceed 1.
    #[oai(validator(minimum(value = "0")))]
    pub fitness_value: f64,
    /// When it was evaluated: RFC 3339, UTC, whole seconds.
    pub evaluated_at: Time,
    /// Number of calls in this evaluation.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub total_calls: i64,
}

/// One gene in a list.
#[derive(Object)]
pub struct GeneSummary {
    /// The gene's id: a UUID in lower case.
    pub id: Uuid,
    /// The gene's name.
    pub name: String,
    /// The gene's domain: a dotted name.
    pub domain: String,
    /// How deeply the gene is integrated.
    pub fidelity: Fidelity,
    /// The gene's description: free text.
    pub description: String,
    /// Fitness in the arena; 0 for a gene that was never evaluated. May exceed 1.
    #[oai(validator(minimum(value = "0")))]
    pub fitness_score: f64,
    /// Reputation of the gene.
    pub reputation_score: f64,
    /// The owner's handle.
    pub owner: String,
    /// Number of installations.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub downloads: i64,
    /// Rank in the gene's own domain by fitness, highest first, then id; starts at 1. 0 means unranked.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub arena_rank: i64,
    /// The latest evaluations, newest first, at most 10.
    #[oai(validator(max_items = 10))]
    pub arena_history: Vec<ArenaHistoryEntry>,
}

/// One page of a search.
#[derive(Object)]
pub struct GenePage {
    /// The genes, best first; empty past the end.
    #[oai(validator(max_items = 50))]
    pub data: Vec<GeneSummary>,
    /// Number of matching genes on all pages.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub total: i64,
    /// The `limit` of this page.
    #[oai(validator(minimum(value = "1"), maximum(value = "50")))]
    pub limit: i32,
    /// The `offset` of this page.
    #[oai(validator(minimum(value = "0"), maximum(value = "2147483647")))]
    pub offset: i32,
}

/// What a gene takes and returns.
#[derive(Object)]
pub struct Phenotype {
    /// JSON-Schema-style description of the input.
    pub input: AnyObject,
    /// JSON-Schema-style description of the output.
    pub output: AnyObject,
}

/// Requirements for running a gene.
#[derive(Object)]
pub struct Compatibility {
    /// The oldest playground version that runs the gene, a dotted version number; `0.0.0` if every
    /// version does.
    pub min_playground_version: String,
    /// The fidelity at which the gene must be run.
    pub required_fidelity: Fidelity,
}

/// A gene's public phenotype.
#[derive(Object)]
pub struct GenePhenotype {
    /// The gene's id: a UUID in lower case.
    pub id: Uuid,
    /// The gene's name.
    pub name: String,
    /// The gene's domain: a dotted name.
    pub domain: String,
    /// How deeply the gene is integrated.
    pub fidelity: Fidelity,
    /// What the gene takes and returns.
    pub phenotype: Phenotype,
    /// Fitness in the arena; 0 for a gene that was never evaluated. May exceed 1.
    #[oai(validator(minimum(value = "0")))]
    pub fitness_score: f64,
    /// Reputation of the gene.
    pub reputation_score: f64,
    /// A shell command line that installs the gene.
    pub install_command: String,
    /// Requirements for running the gene.
    pub compatibility: Compatibility,
}

/// One of a domain's best genes.
#[derive(Object)]
pub struct TopGene {
    /// The gene's name.
    pub name: String,
    /// The gene's fitness score.
    #[oai(validator(minimum(value = "0")))]
    pub fitness: f64,
    /// Trend of the gene's fitness.
    pub trend: Trend,
}

/// Evolution-health metrics of a domain's arena.
#[derive(Object)]
pub struct ArenaInsights {
    /// The requested domain.
    pub domain: String,
    /// Number of published genes of the domain.
    #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
    pub gene_count: i64,
    /// Shannon entropy H' = -Σ p ln p (natural logarithm), where p is a gene's share of the domain's
    /// total fitness. Shares of zero are skipped; with fewer than two that are not zero, the result is 0.
    /// Higher means healthier competition; the maximum is ln(gene_count).
    #[oai(validator(minimum(value = "0")))]
    pub shannon_diversity: f64,
    /// Fraction of the top 5 of thirty days ago that is not in today's top 5; 0 if there was no
    /// top 5 then. The former top 5 are evaluated genes, ordered by the fitness of their latest
    /// evaluation at or before that time, then id. Genes that have been unpublished since do not count.
    #[oai(validator(minimum(value = "0"), maximum(value = "1")))]
    pub turnover_rate: f64,
    /// Evaluated genes by fitness, highest first, then id; at most five.
    #[oai(validator(max_items = 5))]
    pub top_genes: Vec<TopGene>,
    /// Average fitness of the evaluated genes; 0 if there are none.
    #[oai(validator(minimum(value = "0")))]
    pub avg_fitness: f64,
    /// Number of evaluations of the domain's published genes.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub total_arena_evaluations: i64,
}

/// Every error has this body.
#[derive(Object)]
pub struct ErrorBody {
    /// The cause and the remedy, for people. The wording may change.
    pub error: String,
    /// The kind of error, for programs.
    pub code: ErrorCode,
}
