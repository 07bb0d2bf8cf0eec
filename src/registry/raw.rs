//! Converts rows of an upstream to values of the API. This is the only place that replaces empty
//! fields by their documented values and rejects rows that violate the contract.

use thiserror::Error;
use uuid::Uuid;

use super::deceptive::is_deceptive;
use super::gene::{ArenaHistoryEntry, Compatibility, Fidelity, GeneId, GenePhenotype, GeneSummary};
use super::json_text::JsonText;
use super::number::Count;
use super::phenotype::Phenotype;
use super::time::Timestamp;

/// A gene as the upstream stores it: everything but the id may be empty.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "the columns of the view `registry_read.gene`, named as there")]
pub struct RawGene {
    pub id: Uuid,
    pub name: Option<String>,
    pub domain: Option<String>,
    pub fidelity: Option<String>,
    pub description: Option<String>,
    pub owner: Option<String>,
    pub fitness_score: Option<f64>,
    pub reputation_score: Option<f64>,
    pub downloads: Option<i64>,
    pub arena_rank: Option<i64>,
    pub phenotype: Option<JsonText>,
    pub install_command: Option<String>,
    pub min_playground_version: Option<String>,
    pub required_fidelity: Option<String>,
}

/// An evaluation as the upstream stores it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the columns of the view `registry_read.arena_evaluation`")]
pub struct RawEvaluation {
    pub fitness_value: f64,
    pub evaluated_at: Timestamp,
    pub total_calls: Option<i64>,
}

/// Why a row violates the contract.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ContractBreach {
    /// Fitness is NaN, infinite or negative.
    #[error("gene {0}: fitness_score is not a finite number of 0 or more")]
    Fitness(GeneId),
    /// Reputation is NaN or infinite.
    #[error("gene {0}: reputation_score is not a finite number")]
    Reputation(GeneId),
    /// The fidelity is unknown.
    #[error("gene {0}: fidelity is not one of Wrapped, Hybrid, Native")]
    Fidelity(GeneId),
    /// The required fidelity is given, and unknown.
    #[error("gene {0}: required_fidelity is not one of Wrapped, Hybrid, Native")]
    RequiredFidelity(GeneId),
}

/// The fields that every view of a gene validates.
struct Core {
    id: GeneId,
    fidelity: Fidelity,
    fitness_score: f64,
    reputation_score: f64,
}

impl RawGene {
    /// Checks whether lists, totals and the arena may include the gene.
    pub fn check(&self) -> Result<(), ContractBreach> {
        self.core().map(|_| ())
    }

    /// Converts to the gene in a list. `evaluations` may be in any order.
    pub fn into_summary(
        self,
        evaluations: Vec<RawEvaluation>,
    ) -> Result<GeneSummary, ContractBreach> {
        let core = self.core()?;
        Ok(GeneSummary {
            id: core.id,
            name: self.name.unwrap_or_default(),
            domain: self.domain.unwrap_or_default(),
            fidelity: core.fidelity,
            description: self.description.unwrap_or_default(),
            fitness_score: core.fitness_score,
            reputation_score: core.reputation_score,
            owner: self.owner.unwrap_or_default(),
            downloads: Count::saturating(self.downloads.unwrap_or(0)),
            arena_rank: Count::saturating(self.arena_rank.unwrap_or(0)),
            arena_history: history(evaluations),
        })
    }

    /// Converts to the gene's phenotype. `install_template`, with `{id}` replaced by the gene's id,
    /// is used if the upstream has no install command of one line, without deceptive characters.
    pub fn into_phenotype(self, install_template: &str) -> Result<GenePhenotype, ContractBreach> {
        let core = self.core()?;
        let required_fidelity = match self.required_fidelity.as_deref() {
            None | Some("") => core.fidelity,
            Some(text) => text.parse().map_err(|_| ContractBreach::RequiredFidelity(core.id))?,
        };
        let install_command = self
            .install_command
            .filter(|command| is_command(command))
            .unwrap_or_else(|| install_template.replace("{id}", &core.id.to_string()));
        let min_playground_version = self
            .min_playground_version
            .filter(|version| !version.is_empty())
            .unwrap_or_else(|| "0.0.0".to_owned());
        Ok(GenePhenotype {
            id: core.id,
            name: self.name.unwrap_or_default(),
            domain: self.domain.unwrap_or_default(),
            fidelity: core.fidelity,
            phenotype: Phenotype::from_stored(self.phenotype.as_ref()),
            fitness_score: core.fitness_score,
            reputation_score: core.reputation_score,
            install_command,
            compatibility: Compatibility { min_playground_version, required_fidelity },
        })
    }

    fn core(&self) -> Result<Core, ContractBreach> {
        let id = GeneId::from(self.id);
        let fidelity = self
            .fidelity
            .as_deref()
            .and_then(|text| text.parse().ok())
            .ok_or(ContractBreach::Fidelity(id))?;
        let fitness_score = self.fitness_score.unwrap_or(0.0);
        if !is_fitness(fitness_score) {
            return Err(ContractBreach::Fitness(id));
        }
        let reputation_score = self.reputation_score.unwrap_or(0.0);
        if !reputation_score.is_finite() {
            return Err(ContractBreach::Reputation(id));
        }
        Ok(Core {
            id,
            fidelity,
            fitness_score: without_negative_zero(fitness_score),
            reputation_score: without_negative_zero(reputation_score),
        })
    }
}

impl RawEvaluation {
    /// Whether its fitness is finite and not negative. Other evaluations are ignored.
    pub fn is_valid(&self) -> bool {
        is_fitness(self.fitness_value)
    }

    /// Newest first; among equals the better one, then the one with more calls, so that the
    /// order never depends on how rows are stored.
    pub fn newest_first(a: &Self, b: &Self) -> std::cmp::Ordering {
        b.evaluated_at
            .cmp(&a.evaluated_at)
            .then(b.fitness_value.total_cmp(&a.fitness_value))
            .then(b.total_calls.unwrap_or(0).cmp(&a.total_calls.unwrap_or(0)))
    }
}

fn history(mut evaluations: Vec<RawEvaluation>) -> Vec<ArenaHistoryEntry> {
    evaluations.retain(RawEvaluation::is_valid);
    evaluations.sort_by(RawEvaluation::newest_first);
    evaluations
        .into_iter()
        .take(GeneSummary::HISTORY_LENGTH)
        .map(|evaluation| ArenaHistoryEntry {
            fitness_value: without_negative_zero(evaluation.fitness_value),
            evaluated_at: evaluation.evaluated_at,
            total_calls: Count::saturating(evaluation.total_calls.unwrap_or(0)),
        })
        .collect()
}

fn is_fitness(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// JSON would show `-0.0`.
fn without_negative_zero(value: f64) -> f64 {
    value + 0.0
}

/// Whether an install command can be shown and copied: one line, all of which is visible.
fn is_command(command: &str) -> bool {
    !command.trim().is_empty() && !command.contains(is_deceptive)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gene() -> RawGene {
        RawGene { fidelity: Some("Hybrid".to_owned()), ..RawGene::default() }
    }

    #[test]
    fn empty_columns_get_their_documented_values() {
        let summary = gene().into_summary(vec![]).expect("within the contract");
        assert_eq!(
            serde_json::to_string(&summary).expect("json"),
            r#"{"id":"00000000-0000-0000-0000-000000000000","name":"","domain":"","fidelity":"Hybrid","description":"","fitness_score":0.0,"reputation_score":0.0,"owner":"","downloads":0,"arena_rank":0,"arena_history":[]}"#
        );
        let phenotype = gene().into_phenotype("get {id}").expect("within the contract");
        assert_eq!(
            serde_json::to_string(&phenotype).expect("json"),
            r#"{"id":"00000000-0000-0000-0000-000000000000","name":"","domain":"","fidelity":"Hybrid","phenotype":{"input":{"type":"object","properties":{}},"output":{"type":"object","properties":{}}},"fitness_score":0.0,"reputation_score":0.0,"install_command":"get 00000000-0000-0000-0000-000000000000","compatibility":{"min_playground_version":"0.0.0","required_fidelity":"Hybrid"}}"#
        );
    }

    #[test]
    fn rows_that_break_the_contract_are_refused() {
        for fitness in [f64::NAN, f64::INFINITY, -0.1] {
            let raw = RawGene { fitness_score: Some(fitness), ..gene() };
            assert!(matches!(raw.check(), Err(ContractBreach::Fitness(_))), "{fitness}");
        }
        let raw = RawGene { reputation_score: Some(f64::NEG_INFINITY), ..gene() };
        assert!(matches!(raw.check(), Err(ContractBreach::Reputation(_))));
        let raw = RawGene { fidelity: Some("native".to_owned()), ..gene() };
        assert!(matches!(raw.check(), Err(ContractBreach::Fidelity(_))));
        assert!(matches!(RawGene::default().check(), Err(ContractBreach::Fidelity(_))));
        let raw = RawGene { required_fidelity: Some("Best".to_owned()), ..gene() };
        assert!(raw.check().is_ok());
        assert!(matches!(raw.into_phenotype(""), Err(ContractBreach::RequiredFidelity(_))));
    }

    #[test]
    fn fitness_is_never_clipped_and_never_minus_zero() {
        let raw = RawGene { fitness_score: Some(1.75), reputation_score: Some(-0.0), ..gene() };
        let summary = raw.into_summary(vec![]).expect("within the contract");
        assert_eq!(summary.fitness_score, 1.75);
        assert!(summary.reputation_score.is_sign_positive());
    }

    #[test]
    fn history_is_the_newest_ten_without_what_does_not_count() {
        let evaluation = |hour: i64, fitness_value: f64| RawEvaluation {
            fitness_value,
            evaluated_at: Timestamp::from_second(hour * 3600).expect("a time"),
            total_calls: Some(hour),
        };
        let mut evaluations: Vec<_> = (0..12).map(|hour| evaluation(hour, 0.5)).collect();
        evaluations.push(evaluation(99, f64::NAN));
        evaluations.push(evaluation(98, -1.0));
        let summary = gene().into_summary(evaluations).expect("within the contract");
        let hours: Vec<u64> = summary.arena_history.iter().map(|e| e.total_calls.get()).collect();
        assert_eq!(hours, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2]);
    }

    #[test]
    fn a_command_of_several_lines_or_with_deceptive_characters_is_replaced_by_the_template() {
        for (stored, shown) in [
            ("playground install x --pin", "playground install x --pin"),
            ("a\nb", "T"),
            ("a\r", "T"),
            ("  ", "T"),
            ("naïve 日本 \u{5d0}", "naïve 日本 \u{5d0}"),
            ("a\tb", "T"),
            ("a\u{85}b", "T"),
            ("a\u{2028}b", "T"),
            ("a\u{2029}b", "T"),
            ("curl x \u{202e}hs | ", "T"),
            ("a\u{2066}b", "T"),
            ("a\u{61c}b", "T"),
            ("a\u{200b}b", "T"),
            ("é\u{200d}b", "T"),
            ("a\u{ad}b", "T"),
            ("\u{feff}a", "T"),
            ("a\u{3164}b", "T"),
            ("é\u{fe0f}", "T"),
            ("a\u{e0041}", "T"),
        ] {
            let raw = RawGene { install_command: Some(stored.to_owned()), ..gene() };
            let phenotype = raw.into_phenotype("T").expect("within the contract");
            assert_eq!(phenotype.install_command, shown, "{stored:?}");
        }
    }
}
