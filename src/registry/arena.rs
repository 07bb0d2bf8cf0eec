//! The arena's formulas, as pure functions.
//!
//! Upstreams provide their input as sums ([`DomainStanding`]), so a domain of any size costs the
//! service the same memory.

use super::gene::{ArenaInsights, GeneId, TopGene, Trend};
use super::number::Count;
use super::request::DomainName;
use super::time::Timestamp;

/// Number of genes in a top list.
pub const TOP_GENES: usize = 5;

/// Number of evaluations that [`trend`] uses: the newest and up to four before it.
pub const TREND_EVALUATIONS: usize = 5;

/// Number of days that [`turnover_rate`] covers.
pub const TURNOVER_DAYS: i64 = 30;

/// Above this fitness, sums over a domain use scaled values (see [`FitnessSums`]).
pub const SCALING_BEGINS: f64 = 1e100;

/// The input of one domain's formulas.
#[derive(Debug, Clone, PartialEq)]
pub struct DomainStanding {
    /// Number of published genes.
    pub gene_count: i64,
    /// Sums over all published genes.
    pub fitness: FitnessSums,
    /// Number of genes with at least one evaluation.
    pub evaluated_count: i64,
    /// Sum of the evaluated genes' fitness, divided by `fitness.scale`.
    pub evaluated_sum: f64,
    /// Number of evaluations of the published genes.
    pub evaluations: i64,
    /// The best evaluated genes by fitness descending, then id; at most [`TOP_GENES`].
    pub top_now: Vec<StandingGene>,
    /// The ids of the genes that were the best 30 days ago, in the same order.
    pub top_then: Vec<GeneId>,
}

/// One gene of the current top.
#[derive(Debug, Clone, PartialEq)]
pub struct StandingGene {
    /// Identifier.
    pub id: GeneId,
    /// Name.
    pub name: String,
    /// Its fitness score.
    pub fitness: f64,
    /// The fitness in its newest evaluations, newest first; at most [`TREND_EVALUATIONS`].
    pub newest_evaluations: Vec<f64>,
}

/// Sums over the fitness of a domain's genes, enough for its entropy in one pass.
///
/// Values are divided by `scale` first. It is 1 unless a fitness is above [`SCALING_BEGINS`], where
/// sums could overflow. Entropy does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitnessSums {
    /// The divisor of the values.
    pub scale: f64,
    /// Number of genes with a fitness above 0.
    pub positive: i64,
    /// S = Σ f.
    pub sum: f64,
    /// Σ f ln f.
    pub sum_f_ln_f: f64,
}

impl FitnessSums {
    /// Empty sums, for values up to `largest`.
    pub fn up_to(largest: f64) -> Self {
        let scale = if largest > SCALING_BEGINS { largest } else { 1.0 };
        Self { scale, positive: 0, sum: 0.0, sum_f_ln_f: 0.0 }
    }

    /// Adds one gene's fitness. Zero shares are skipped.
    pub fn add(&mut self, fitness: f64) {
        let share = fitness / self.scale;
        if share > 0.0 {
            self.positive += 1;
            self.sum += share;
            self.sum_f_ln_f += share * share.ln();
        }
    }
}

/// Computes the domain's insights; `None` for a domain without published genes, which does not
/// exist.
pub fn insights(domain: &DomainName, standing: DomainStanding) -> Option<ArenaInsights> {
    if standing.gene_count < 1 {
        return None;
    }
    let ids_now: Vec<GeneId> = standing.top_now.iter().map(|gene| gene.id).collect();
    Some(ArenaInsights {
        domain: domain.as_str().to_owned(),
        gene_count: Count::saturating(standing.gene_count),
        shannon_diversity: shannon_diversity(&standing.fitness),
        turnover_rate: turnover_rate(&standing.top_then, &ids_now),
        top_genes: standing.top_now.into_iter().map(top_gene).collect(),
        avg_fitness: mean(standing.evaluated_sum, standing.evaluated_count, standing.fitness.scale),
        total_arena_evaluations: Count::saturating(standing.evaluations),
    })
}

fn top_gene(gene: StandingGene) -> TopGene {
    TopGene { trend: trend(&gene.newest_evaluations), name: gene.name, fitness: gene.fitness }
}

/// The mean of `count` values whose sum, divided by `scale`, is `sum`; 0 without any.
fn mean(sum: f64, count: i64, scale: f64) -> f64 {
    if count > 0 { sum / count as f64 * scale } else { 0.0 }
}

/// Shannon entropy H' = -Σ p ln p in nats, p = a gene's share of the domain's total fitness;
/// 0 with fewer than two positive shares, never negative.
///
/// Computed in one pass as ln S - (Σ f ln f) / S, which is the same with p = f / S. Source:
/// C. E. Shannon, "A Mathematical Theory of Communication", 1948.
pub fn shannon_diversity(fitness: &FitnessSums) -> f64 {
    if fitness.positive < 2 || fitness.sum <= 0.0 {
        return 0.0;
    }
    // Rounding can yield a value just below zero if one gene has nearly all of the fitness.
    (fitness.sum.ln() - fitness.sum_f_ln_f / fitness.sum).max(0.0)
}

/// Compares the newest evaluation with the mean of up to four before it: more than 2 % above is
/// rising, more than 2 % below declining; otherwise, or with fewer than two, stable.
///
/// `newest_first` may have more than [`TREND_EVALUATIONS`] values; the rest is ignored.
pub fn trend(newest_first: &[f64]) -> Trend {
    // Decimal scores are not exact in binary: a value this close to a threshold counts as equal.
    const ROUNDING: f64 = 1e-9;
    let Some((newest, before)) = newest_first.split_first() else { return Trend::Stable };
    let before = &before[..before.len().min(TREND_EVALUATIONS - 1)];
    if before.is_empty() {
        return Trend::Stable;
    }
    // Divided before they are added: the sum of finite values could overflow.
    let mean: f64 = before.iter().map(|fitness| fitness / before.len() as f64).sum();
    if *newest > mean * (1.02 + ROUNDING) {
        Trend::Rising
    } else if *newest < mean * (0.98 - ROUNDING) {
        Trend::Declining
    } else {
        Trend::Stable
    }
}

/// The fraction of the genes in the top 30 days ago that are not in the current top; 0 if there
/// were none.
pub fn turnover_rate(then: &[GeneId], now: &[GeneId]) -> f64 {
    if then.is_empty() {
        return 0.0;
    }
    let replaced = then.iter().filter(|id| !now.contains(id)).count();
    replaced as f64 / then.len() as f64
}

/// The time that [`turnover_rate`] compares with: `now` less 30 days of 24 hours.
pub fn turnover_begins(now: Timestamp) -> Timestamp {
    now.saturating_sub(jiff::SignedDuration::from_hours(24 * TURNOVER_DAYS))
        .unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entropy(fitness: &[f64]) -> f64 {
        let largest = fitness.iter().copied().fold(0.0, f64::max);
        let mut sums = FitnessSums::up_to(largest);
        fitness.iter().for_each(|f| sums.add(*f));
        shannon_diversity(&sums)
    }

    #[track_caller]
    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn entropy_of_equal_shares_is_ln_n() {
        for n in [2_usize, 3, 5, 100] {
            assert_near(entropy(&vec![0.37; n]), (n as f64).ln());
        }
    }

    #[test]
    fn entropy_by_hand() {
        assert_eq!(entropy(&[]), 0.0);
        assert_eq!(entropy(&[0.9]), 0.0);
        assert_eq!(entropy(&[0.0, 0.0]), 0.0);
        // Zero shares are skipped: one share is left.
        assert_eq!(entropy(&[0.0, 0.8]), 0.0);
        // p = 1/2, 1/4, 1/4: 1/2 ln 2 + 1/2 ln 4 = 3/2 ln 2.
        assert_near(entropy(&[0.5, 0.25, 0.25, 0.0]), 1.5 * 2_f64.ln());
        // Fitness above 1: p = 3/4, 1/4: ln 4 - 3/4 ln 3.
        assert_near(entropy(&[3.0, 1.0]), 4_f64.ln() - 0.75 * 3_f64.ln());
    }

    #[test]
    fn sums_of_huge_fitness_do_not_overflow() {
        assert_near(entropy(&[f64::MAX, f64::MAX, f64::MAX]), 3_f64.ln());
        assert_eq!(mean(2.0, 2, f64::MAX), f64::MAX);
    }

    #[test]
    fn trends_at_their_thresholds() {
        assert_eq!(trend(&[]), Trend::Stable);
        assert_eq!(trend(&[0.9]), Trend::Stable);
        assert_eq!(trend(&[0.51, 0.5]), Trend::Stable);
        assert_eq!(trend(&[0.510_001, 0.5]), Trend::Rising);
        assert_eq!(trend(&[0.49, 0.5]), Trend::Stable);
        assert_eq!(trend(&[0.489_999, 0.5]), Trend::Declining);
        // Mean of the four before: (0.4 + 0.6 + 0.4 + 0.6) / 4 = 0.5; the sixth is not seen.
        assert_eq!(trend(&[0.51, 0.4, 0.6, 0.4, 0.6, 99.0]), Trend::Stable);
        assert_eq!(trend(&[0.52, 0.4, 0.6, 0.4, 0.6, 99.0]), Trend::Rising);
        assert_eq!(trend(&[0.0, 0.0]), Trend::Stable);
        assert_eq!(trend(&[0.1, 0.0]), Trend::Rising);
    }

    #[test]
    fn turnover_by_hand() {
        let ids: Vec<GeneId> =
            (0..10_u128).map(|n| GeneId::from(uuid::Uuid::from_u128(n))).collect();
        assert_eq!(turnover_rate(&[], &ids[..5]), 0.0);
        assert_eq!(turnover_rate(&ids[..5], &ids[..5]), 0.0);
        assert_eq!(turnover_rate(&ids[..5], &ids[1..6]), 0.2);
        assert_eq!(turnover_rate(&ids[..5], &ids[5..]), 1.0);
        // Fewer then, more now.
        assert_eq!(turnover_rate(&ids[..2], &ids[1..6]), 0.5);
    }

    #[test]
    fn thirty_days_are_of_24_hours() {
        let now: Timestamp = "2026-03-31T12:00:00Z".parse().expect("a time");
        assert_eq!(turnover_begins(now).to_string(), "2026-03-01T12:00:00Z");
        assert_eq!(turnover_begins(Timestamp::MIN), Timestamp::MIN);
    }

    proptest! {
        #[test]
        fn entropy_equals_its_definition(
            fitness in prop::collection::vec(prop_oneof![Just(0.0), 0.0..3.0_f64], 0..60),
        ) {
            let total: f64 = fitness.iter().sum();
            let expected: f64 = fitness
                .iter()
                .map(|f| f / total)
                .filter(|p| *p > 0.0)
                .map(|p| -p * p.ln())
                .sum();
            let found = entropy(&fitness);
            prop_assert!((found - expected.max(0.0)).abs() < 1e-9, "{found} {expected}");
            prop_assert!((0.0..=(fitness.len().max(1) as f64).ln() + 1e-9).contains(&found));
        }

        #[test]
        fn turnover_and_trend_stay_in_range(
            then in prop::collection::vec(0..8_u128, 0..5),
            now in prop::collection::vec(0..8_u128, 0..5),
            values in prop::collection::vec(0.0..2.0_f64, 0..8),
        ) {
            let ids = |n: Vec<u128>| -> Vec<GeneId> {
                n.into_iter().map(|n| uuid::Uuid::from_u128(n).into()).collect()
            };
            let rate = turnover_rate(&ids(then), &ids(now));
            prop_assert!((0.0..=1.0).contains(&rate));
            // What comes after the fifth evaluation never matters.
            prop_assert_eq!(trend(&values), trend(&values[..values.len().min(TREND_EVALUATIONS)]));
        }
    }
}
