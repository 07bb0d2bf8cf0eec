//! Random registries and random queries: both upstreams return the same results.

use gene_registry::registry::{
    ArenaInsights, Fidelity, GeneFilter, GeneSearch, RawEvaluation, RawGene, Sort, Timestamp,
};
use gene_registry::upstream::{Embedded, EmbeddedGene, Upstream};
use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio_postgres::Client;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::behaviour::{domain, now, page};
use super::database::{TEMPLATE, TestDatabase, fresh_database};

const DOMAINS: [&str; 3] = ["a.b", "a_b", "\u{1F9EC} %"];
const THIRTY_DAYS: i64 = 30 * 24 * 60 * 60;

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => prop::sample::select(vec![0.0, 0.25, 0.5, 1.0, 1.75]),
        1 => 0.0..2.0_f64,
        1 => prop::sample::select(vec![5e-324, 1e-300, 1e100, 1e308, f64::MAX]),
    ]
}

fn evaluations(now: Timestamp) -> impl Strategy<Value = Vec<RawEvaluation>> {
    let age = prop_oneof![
        0..90_i64 * 86_400,
        prop::sample::select(vec![THIRTY_DAYS - 1, THIRTY_DAYS, THIRTY_DAYS + 1]),
    ];
    let evaluation =
        (age, score(), 0..9_i64).prop_map(move |(age, fitness_value, calls)| RawEvaluation {
            fitness_value,
            evaluated_at: now.saturating_sub(SignedDuration::from_secs(age)).expect("a time"),
            total_calls: Some(calls),
        });
    prop::collection::vec(evaluation, 0..13)
}

fn phenotypes() -> Vec<Value> {
    vec![
        json!({}),
        json!(null),
        json!([1, "text"]),
        json!({"input": {"a": 1}, "outputSchema": {"b": [null, 1.5e300]}, "other": {}}),
        json!({"input": {}, "inputSchema": {"z": "\u{1F9EC}", "a": 9007199254740993_u64}}),
    ]
}

fn gene(now: Timestamp) -> impl Strategy<Value = EmbeddedGene> {
    let core = (
        any::<u128>(),
        prop::sample::select(DOMAINS.to_vec()),
        prop::sample::select(Fidelity::ALL.to_vec()),
        score(),
        prop::sample::select(vec![-3.5, -0.0, 0.0, 0.5, 99.0, f64::MAX]),
        prop::sample::select(vec![0, 1, 2, 9_007_199_254_740_991, i64::MAX]),
    );
    let rest = (
        prop::sample::select(phenotypes()),
        prop::sample::select(vec!["", "get it", "two\nlines", "  "]),
        prop::sample::select(vec!["", "1.2.3"]),
        prop::option::of(prop::sample::select(Fidelity::ALL.to_vec())),
        prop::bool::weighted(0.9),
        evaluations(now),
    );
    (core, rest).prop_map(|(core, rest)| EmbeddedGene {
        raw: RawGene {
            id: Uuid::from_u128(core.0),
            name: Some(format!("gene {}", core.0 % 7)),
            domain: Some(core.1.to_owned()),
            fidelity: Some(core.2.as_str().to_owned()),
            description: Some("about".to_owned()),
            owner: Some(format!("owner {}", core.0 % 3)),
            fitness_score: Some(core.3),
            reputation_score: Some(core.4),
            downloads: Some(core.5),
            arena_rank: Some(core.5),
            phenotype: Some(rest.0.into()),
            install_command: Some(rest.1.to_owned()),
            min_playground_version: Some(rest.2.to_owned()),
            required_fidelity: rest.3.map(|fidelity| fidelity.as_str().to_owned()),
        },
        published: rest.4,
        evaluations: rest.5,
    })
}

/// Replaces all genes of the registry by these.
async fn fill(client: &Client, genes: &[EmbeddedGene]) {
    client.batch_execute("DELETE FROM registry.gene").await.expect("an empty registry");
    for gene in genes {
        let raw = &gene.raw;
        client
            .execute(
                "WITH o AS (INSERT INTO registry.owner (handle) VALUES ($6)
                    ON CONFLICT (handle) DO UPDATE SET handle = excluded.handle RETURNING id)
                INSERT INTO registry.gene (id, name, domain, fidelity, description, owner_id,
                    fitness_score, reputation_score, downloads, arena_rank, phenotype,
                    install_command, min_playground_version, required_fidelity, published)
                SELECT $1, $2, $3, $4, $5, o.id, $7, $8, $9, $10, $11, $12, $13, $14, $15 FROM o",
                &[
                    &raw.id,
                    &raw.name,
                    &raw.domain,
                    &raw.fidelity,
                    &raw.description,
                    &raw.owner,
                    &raw.fitness_score,
                    &raw.reputation_score,
                    &raw.downloads,
                    &raw.arena_rank,
                    &raw.phenotype.as_ref().map(Json),
                    &raw.install_command,
                    &raw.min_playground_version,
                    &raw.required_fidelity,
                    &gene.published,
                ],
            )
            .await
            .expect("a gene");
        let (mut fitness, mut times, mut calls) = (vec![], vec![], vec![]);
        for evaluation in &gene.evaluations {
            fitness.push(evaluation.fitness_value);
            times.push(evaluation.evaluated_at.to_string());
            calls.push(evaluation.total_calls);
        }
        client
            .execute(
                "INSERT INTO registry.arena_evaluation
                    (gene_id, fitness_value, evaluated_at, total_calls)
                SELECT $1, f, t::timestamptz, c
                FROM unnest($2::float8[], $3::text[], $4::bigint[]) e (f, t, c)",
                &[&raw.id, &fitness, &times, &calls],
            )
            .await
            .expect("its evaluations");
    }
}

fn is_near(found: f64, expected: f64) -> bool {
    found == expected || (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

fn same_numbers(found: &ArenaInsights, expected: &ArenaInsights) -> bool {
    is_near(found.shannon_diversity, expected.shannon_diversity)
        && is_near(found.avg_fitness, expected.avg_fitness)
        && ArenaInsights { shannon_diversity: 0.0, avg_fitness: 0.0, ..found.clone() }
            == ArenaInsights { shannon_diversity: 0.0, avg_fitness: 0.0, ..expected.clone() }
}

async fn compare(
    a: &dyn Upstream,
    b: &dyn Upstream,
    genes: &[EmbeddedGene],
    now: Timestamp,
    limit: u64,
) {
    let domains = std::iter::once(None).chain(DOMAINS.map(|name| Some(domain(name))));
    for domain in domains {
        for fidelity in [None, Some(Fidelity::Wrapped), Some(Fidelity::Native)] {
            for sort in Sort::ALL {
                let filter = GeneFilter { domain: domain.clone(), fidelity };
                for offset in (0..=genes.len() as u64).step_by(limit as usize) {
                    let page = page(limit, offset);
                    let search = GeneSearch { filter: filter.clone(), sort, page };
                    let found = a.search(&search).await.expect("a page").value;
                    let expected = b.search(&search).await.expect("a page").value;
                    assert_eq!(found, expected, "{search:?}");
                }
            }
        }
        if let Some(domain) = domain {
            let found = a.insights(&domain, now).await.expect("a read").value;
            let expected = b.insights(&domain, now).await.expect("a read").value;
            match (&found, &expected) {
                (Some(f), Some(e)) => assert!(same_numbers(f, e), "{f:?}\n{e:?}"),
                _ => assert_eq!(found, expected),
            }
        }
    }
    for gene in genes {
        let found = a.phenotype(gene.raw.id.into()).await.expect("a read").value;
        let expected = b.phenotype(gene.raw.id.into()).await.expect("a read").value;
        assert_eq!(found, expected);
    }
}

#[test]
fn both_upstreams_return_the_same_results() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let now = now();
    let (database, client): (TestDatabase, Client) = runtime.block_on(async {
        let database = fresh_database().await;
        let client = database.client().await;
        (database, client)
    });
    let postgres = {
        let _inside = runtime.enter();
        database.upstream()
    };
    let mut runner = TestRunner::new(Config {
        cases: 40,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    });
    let registries = (prop::collection::vec(gene(now), 0..25), 1..8_u64);
    runner
        .run(&registries, |(genes, limit)| {
            runtime.block_on(async {
                fill(&client, &genes).await;
                let embedded = Embedded::new(genes.clone(), vec![], TEMPLATE.to_owned());
                compare(&postgres, &embedded, &genes, now, limit).await;
            });
            Ok(())
        })
        .expect("the same results");
}
