//! A whole registry as data: the sample in `config/`, which `seed` and `demo` load.

use serde::Deserialize;
use uuid::Uuid;

use super::json_text::JsonText;

/// A registry to load. Evaluations have ages instead of dates, so that the arena never looks empty.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Its genes, including unpublished ones.
    pub genes: Vec<CatalogueGene>,
}

/// One gene to load.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "named as the columns of the view `registry_read.gene`")]
pub struct CatalogueGene {
    pub id: Uuid,
    pub name: String,
    pub domain: String,
    pub fidelity: String,
    pub description: String,
    pub owner: String,
    pub reputation_score: f64,
    pub downloads: i64,
    #[serde(default = "published")]
    pub published: bool,
    pub phenotype: Option<JsonText>,
    pub install_command: Option<String>,
    pub min_playground_version: Option<String>,
    pub required_fidelity: Option<String>,
    /// Newest first. The newest one's fitness is the gene's `fitness_score`; 0 without any.
    pub evaluations: Vec<CatalogueEvaluation>,
}

/// One evaluation to load.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueEvaluation {
    /// Age at the time of loading, in minutes.
    pub age_minutes: u32,
    /// The fitness.
    pub fitness_value: f64,
    /// Number of calls.
    pub total_calls: i64,
}

impl Catalogue {
    /// The sample registry.
    ///
    /// # Errors
    /// The embedded file is invalid, which a test rules out.
    pub fn sample() -> Result<Self, serde_json::Error> {
        serde_json::from_str(include_str!("../../config/sample-registry.json"))
    }
}

const fn published() -> bool {
    true
}

impl CatalogueGene {
    /// Its `fitness_score`: that of the newest evaluation, or 0.
    pub fn fitness_score(&self) -> f64 {
        self.evaluations.first().map_or(0.0, |newest| newest.fitness_value)
    }
}
