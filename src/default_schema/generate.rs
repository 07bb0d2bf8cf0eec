//! Generates a registry of any size for tests and measurements. It depends only on the seed, and is
//! generated gene by gene, in constant memory.

use serde_json::json;

use crate::registry::{CatalogueEvaluation, CatalogueGene, Fidelity};

/// Generates `n` genes. Of a million, 100,000 are in one domain, and the smallest domains have a few.
/// Each has three evaluations of the last 90 days on average; one gene in seven has none, one in a
/// hundred is unpublished.
pub fn genes(n: u64, seed: u64) -> impl Iterator<Item = CatalogueGene> {
    let mut random = SplitMix64(seed);
    let salt = random.next();
    (0..n).map(move |index| {
        gene(index, n, &mut SplitMix64(salt ^ index.wrapping_mul(0x9E6D_62D0_6F6A_9A9B)))
    })
}

fn gene(index: u64, n: u64, random: &mut SplitMix64) -> CatalogueGene {
    let id = uuid::Builder::from_random_bytes(random.bytes()).into_uuid();
    let domain = domain(index, random);
    let number = random.below(100_000);
    let name = format!("{}-{}-{number}", random.pick(&ADJECTIVES), random.pick(&NOUNS));
    let fidelity =
        *random.pick(&[Fidelity::Wrapped, Fidelity::Wrapped, Fidelity::Hybrid, Fidelity::Native]);
    CatalogueGene {
        description: format!("Generated gene {index} of {domain}."),
        owner: format!("owner-{}", random.below(1 + n / 200)),
        reputation_score: thousandths(random.below(100_000)),
        // Most products are small: few genes are installed often.
        downloads: i64::try_from(random.below(1_000) * random.below(1_000)).unwrap_or(0),
        published: random.below(100) > 0 || index.is_multiple_of(10),
        phenotype: Some(phenotype(random).into()),
        install_command: None,
        min_playground_version: Some(format!("1.{}.0", random.below(9))),
        required_fidelity: None,
        evaluations: evaluations(random),
        fidelity: fidelity.as_str().to_owned(),
        id,
        name,
        domain,
    }
}

/// One gene in ten is in the first domain. Of the rest, half share 20 domains, a quarter 40, an
/// eighth 80, and so on, down to domains of a few.
fn domain(index: u64, random: &mut SplitMix64) -> String {
    if index.is_multiple_of(10) {
        return "bench.large".to_owned();
    }
    let tier = random.next().trailing_zeros().min(7);
    format!("bench.tier{tier}.d{}", random.below(20 << tier))
}

fn evaluations(random: &mut SplitMix64) -> Vec<CatalogueEvaluation> {
    const NINETY_DAYS: u64 = 90 * 24 * 60;
    let skill = random.below(1_000);
    let count = random.below(7);
    let mut ages: Vec<u64> = (0..count).map(|_| random.below(NINETY_DAYS)).collect();
    ages.sort_unstable();
    ages.into_iter()
        .map(|age| CatalogueEvaluation {
            age_minutes: u32::try_from(age).unwrap_or(u32::MAX),
            fitness_value: thousandths(skill + random.below(100)),
            total_calls: i64::try_from(1 + random.below(5_000)).unwrap_or(1),
        })
        .collect()
}

fn phenotype(random: &mut SplitMix64) -> serde_json::Value {
    let (input, output) = (random.pick(&NOUNS), random.pick(&NOUNS));
    json!({
        "input": {"type": "object", "properties": {*input: {"type": "string"}}, "required": [input]},
        "output": {"type": "object", "properties": {*output: {"type": "number"}}},
    })
}

fn thousandths(value: u64) -> f64 {
    value as f64 / 1_000.0
}

const ADJECTIVES: [&str; 8] =
    ["swift", "quiet", "bold", "keen", "vivid", "plain", "tidy", "sturdy"];
const NOUNS: [&str; 8] =
    ["parser", "router", "planner", "ranker", "scorer", "reader", "solver", "weaver"];

/// SplitMix64: small, fast, and the same on every machine and in every release. Source: G. L.
/// Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to `bound` - 1, for a bound above 0.
    fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(from.len() as u64)).unwrap_or(0);
        &from[index]
    }

    fn bytes(&mut self) -> [u8; 16] {
        (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_genes() {
        assert!(genes(500, 7).eq(genes(500, 7)));
        assert!(!genes(500, 7).eq(genes(500, 8)));
    }

    #[test]
    fn the_sizes_of_domains_vary_widely() {
        let mut sizes: HashMap<String, u64> = HashMap::new();
        let mut ids: HashSet<Uuid> = HashSet::new();
        let (mut evaluations, n) = (0, 100_000);
        for gene in genes(n, 1) {
            *sizes.entry(gene.domain).or_default() += 1;
            ids.insert(gene.id);
            evaluations += gene.evaluations.len() as u64;
        }
        assert_eq!(ids.len() as u64, n);
        assert_eq!(sizes["bench.large"], n / 10);
        assert!(sizes.values().any(|size| *size < 6), "{:?}", sizes.values().min());
        assert!(sizes.len() > 300, "{}", sizes.len());
        assert!((2 * n + n / 2..4 * n).contains(&evaluations), "{evaluations}");
    }
}
