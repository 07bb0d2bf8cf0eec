//! An existing registry behind the views, with other types, NULLs everywhere and rows that violate
//! the contract: such rows are excluded, and no request fails because of them.

use gene_registry::registry::{
    ApiKeyRecord, Fidelity, GeneFilter, GeneSearch, KeyHash, MAX_SAFE_INTEGER, Sort, Timestamp,
};
use gene_registry::upstream::{RegistryReader, UpstreamError};
use uuid::Uuid;

use super::behaviour::{domain, walk};
use super::database::{TestDatabase, empty_database};
use crate::support::database::ReadKey;

/// Tables without constraints: numeric scores, varchar texts.
const EXISTING_TABLES: &str = "
    CREATE SCHEMA registry_read;
    CREATE TABLE registry_read.gene (id uuid, name varchar(99), domain varchar(255),
        fidelity text, description varchar, owner varchar, fitness_score numeric,
        reputation_score float4, downloads numeric, arena_rank int, phenotype json,
        install_command varchar, min_playground_version varchar, required_fidelity varchar);
    CREATE TABLE registry_read.arena_evaluation
        (gene_id uuid, fitness_value float4, evaluated_at timestamp, total_calls numeric);
    CREATE TABLE registry_read.api_key (key_hash bytea, prefix varchar, owner varchar,
        name varchar, scopes varchar[], rate_limit_per_minute bigint, created_at timestamptz,
        expires_at timestamptz, revoked_at timestamptz);
    INSERT INTO registry_read.gene (id, domain, fidelity, fitness_score, reputation_score,
        downloads, required_fidelity) VALUES
        ('00000000-0000-0000-0000-000000000001', 'd', 'Native', 0.5, 1.5, 1e30, ''),
        ('00000000-0000-0000-0000-000000000002', 'd', 'Hybrid', NULL, NULL, NULL, NULL),
        ('00000000-0000-0000-0000-000000000003', 'd', 'Wrapped', 1.25, -2, -1e30, NULL),
        ('00000000-0000-0000-0000-000000000004', 'd', 'native', 9, 9, 9, NULL),
        ('00000000-0000-0000-0000-000000000005', 'd', NULL, 9, 9, 9, NULL),
        ('00000000-0000-0000-0000-000000000006', 'd', 'Native', 'NaN', 9, 9, NULL),
        ('00000000-0000-0000-0000-000000000007', 'd', 'Native', -0.1, 9, 9, NULL),
        ('00000000-0000-0000-0000-000000000008', 'd', 'Native', 9, 'NaN', 9, NULL),
        ('00000000-0000-0000-0000-000000000009', 'd', 'Native', 9, '-Infinity', 9, NULL),
        ('00000000-0000-0000-0000-00000000000a', NULL, 'Native', 0.1, 0, 5, 'Best'),
        (NULL, 'd', 'Native', 9, 9, 9, NULL);
    INSERT INTO registry_read.arena_evaluation VALUES
        ('00000000-0000-0000-0000-000000000001', 0.5, '2026-01-01', 1e30),
        ('00000000-0000-0000-0000-000000000001', 'NaN', '2026-01-02', 1),
        ('00000000-0000-0000-0000-000000000001', -1, '2026-01-02', 1),
        ('00000000-0000-0000-0000-000000000001', 'Infinity', '2026-01-02', 1),
        ('00000000-0000-0000-0000-000000000001', NULL, '2026-01-02', 1),
        ('00000000-0000-0000-0000-000000000001', 9, NULL, 1),
        ('00000000-0000-0000-0000-000000000001', 9, 'infinity', 1),
        ('00000000-0000-0000-0000-000000000001', 9, '-infinity', 1),
        ('00000000-0000-0000-0000-000000000001', 9, '20000-01-01', 1),
        ('00000000-0000-0000-0000-000000000001', 0.25, '2025-12-31', NULL),
        ('00000000-0000-0000-0000-000000000006', 9, '2026-01-01', 1),
        (NULL, 9, '2026-01-01', 1)";

async fn existing_registry() -> TestDatabase {
    let database = empty_database().await;
    database.client().await.batch_execute(EXISTING_TABLES).await.expect("a foreign registry");
    database
}

fn id(last: u128) -> gene_registry::registry::GeneId {
    Uuid::from_u128(last).into()
}

#[tokio::test]
async fn rows_that_violate_the_contract_are_excluded_from_lists_and_totals() {
    let database = existing_registry().await;
    let upstream = database.upstream();
    for (filter, sort, expected) in [
        (GeneFilter::default(), Sort::Fitness, vec![3, 1, 10, 2]),
        (GeneFilter::default(), Sort::Reputation, vec![1, 2, 10, 3]),
        (GeneFilter::default(), Sort::Downloads, vec![1, 10, 2, 3]),
        (GeneFilter { domain: Some(domain("d")), fidelity: None }, Sort::Fitness, vec![3, 1, 2]),
        (GeneFilter { domain: None, fidelity: Some(Fidelity::Native) }, Sort::Fitness, vec![1, 10]),
    ] {
        let (ids, total) = walk(&upstream, &filter, sort, 3).await;
        let expected: Vec<_> = expected.into_iter().map(id).collect();
        assert_eq!(ids, expected, "{filter:?} {sort:?}");
        assert_eq!(total, expected.len() as u64);
    }
    // Excludes rows with an unknown fidelity, or a fitness or reputation that is no number.
    let counts = upstream.count(&GeneFilter::default()).await.expect("a count").value;
    assert_eq!((counts.total.get(), counts.broken.get()), (4, 6));
}

#[tokio::test]
async fn numbers_beyond_the_range_saturate_and_empty_ones_are_zero() {
    let database = existing_registry().await;
    let upstream = database.upstream();
    let page = upstream.search(&GeneSearch::default()).await.expect("a page").value;
    let (third, first, second) = (&page.data[0], &page.data[1], &page.data[3]);
    assert_eq!(first.downloads.get(), MAX_SAFE_INTEGER);
    assert_eq!(third.downloads.get(), 0);
    assert_eq!((second.fitness_score, second.reputation_score), (0.0, 0.0));
    assert_eq!((second.arena_rank.get(), second.owner.as_str()), (0, ""));
    let history: Vec<(f64, u64)> = first
        .arena_history
        .iter()
        .map(|entry| (entry.fitness_value, entry.total_calls.get()))
        .collect();
    assert_eq!(history, [(0.5, MAX_SAFE_INTEGER), (0.25, 0)]);
}

#[tokio::test]
async fn rows_that_violate_the_contract_are_excluded_from_the_arena() {
    let database = existing_registry().await;
    let upstream = database.upstream();
    let insights = upstream.insights(&domain("d"), Timestamp::now()).await.expect("a read");
    let insights = insights.value.expect("a domain");
    assert_eq!(insights.gene_count.get(), 3);
    assert_eq!(insights.total_arena_evaluations.get(), 2);
    assert_eq!(insights.top_genes.len(), 1);
    assert_eq!(insights.avg_fitness, 0.5);
}

#[tokio::test]
async fn a_phenotype_that_violates_the_contract_fails_only_its_own_request() {
    let database = existing_registry().await;
    let upstream = database.upstream();
    for good in [1, 2, 3] {
        let found = upstream.phenotype(id(good)).await.expect("a read").value;
        assert_eq!(found.expect("a gene").id, id(good));
    }
    for bad in 4..=10 {
        let found = upstream.phenotype(id(bad)).await;
        assert!(matches!(found, Err(UpstreamError::Contract(_))), "{bad}: {found:?}");
    }
    assert_eq!(upstream.phenotype(id(99)).await.expect("a read").value, None);
}

#[tokio::test]
async fn keys_with_empty_or_infinite_fields_are_read() {
    let database = existing_registry().await;
    database
        .client()
        .await
        .batch_execute(
            "INSERT INTO registry_read.api_key (key_hash, scopes, rate_limit_per_minute,
                expires_at, revoked_at) VALUES
            (decode(repeat('01', 32), 'hex'), NULL, NULL, NULL, NULL),
            (decode(repeat('02', 32), 'hex'), '{read,NULL}', 99999999999, 'infinity', NULL),
            (decode(repeat('03', 32), 'hex'), '{}', -5, '-infinity', '2026-01-01')",
        )
        .await
        .expect("keys");
    let upstream = database.upstream();
    let mut found: Vec<ApiKeyRecord> = Vec::new();
    for byte in 1..=3 {
        let key = upstream.api_key(&KeyHash([byte; 32])).await.expect("a read");
        found.push(key.value.expect("a key"));
    }
    assert_eq!(found[0].rate_limit_per_minute, ApiKeyRecord::DEFAULT_RATE_LIMIT);
    assert_eq!((found[0].scopes.len(), found[0].expires_at), (0, None));
    assert_eq!(found[1].rate_limit_per_minute, 2_147_483_647);
    assert_eq!(
        (found[1].scopes.as_slice(), found[1].expires_at),
        (["read".to_owned()].as_slice(), None)
    );
    assert_eq!(found[2].rate_limit_per_minute, 0);
    assert!(found[2].expires_at.is_some_and(|at| at < Timestamp::UNIX_EPOCH));
    assert!(found[2].revoked_at.is_some());
    assert_eq!(upstream.api_key(&KeyHash([4; 32])).await.expect("a read").value, None);
}
