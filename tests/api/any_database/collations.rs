//! Comparisons are exact, whatever the collation of a column.

use super::ExistingRegistry;
use crate::support::postgres::PostgresServer;

/// Texts that differ in case or accents only are equal.
const COLLATION: &str = "create collation loose
    (provider = icu, locale = 'und-u-ks-level1', deterministic = false)";

const ROWS: &str = "
    insert into registry_read.gene (id, name, domain, fidelity, fitness_score) values
        (uuid(lpad('1', 32, '0')), 'a', 'search', 'Native', 4),
        (uuid(lpad('2', 32, '0')), 'b', 'Search', 'Native', 3),
        (uuid(lpad('3', 32, '0')), 'c', 'sèarch', 'Hybrid', 2),
        (uuid(lpad('4', 32, '0')), 'd', 'search', 'native', 1);
    insert into registry_read.api_key (prefix, owner, created_at) values
        ('gr_aaaaaaaa', 'alice', now()), ('gr_AAAAAAAA', 'Alice', now()), ('gr_bbbbbbbb', 'alice', now());";

#[tokio::test(flavor = "multi_thread")]
async fn a_collation_that_ignores_case_and_accents_changes_no_result() {
    let database = PostgresServer::shared().await.create_database().await;
    database.connect().await.batch_execute(COLLATION).await.unwrap();
    let text = "text collate loose";
    let registry = ExistingRegistry::start(&database, text, ROWS, &["alice", "Alice"]).await;

    for (query, expected) in [
        ("", "123"),
        ("?domain=search", "1"),
        ("?domain=Search", "2"),
        ("?domain=s%C3%A8arch", "3"),
        ("?domain=SEARCH", ""),
        ("?fidelity=Native", "12"),
        ("?domain=Search&fidelity=Native", "2"),
        ("?domain=Search&fidelity=Hybrid", ""),
    ] {
        let found = registry.search(query).await;
        assert_eq!(found, (expected.to_owned(), expected.len() as u64), "{query}");
    }
    assert_eq!(registry.replica.metric("gene_registry_broken_rows").await, Some(1.0));
    for (domain, count) in [("search", 1), ("Search", 1), ("s%C3%A8arch", 1)] {
        let path = format!("/arena/insights?domain={domain}");
        let response = registry.replica.get(&path, Some(&registry.key)).await;
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.json()["gene_count"], count, "{domain}");
    }

    for (user, expected) in registry.users.iter().zip([2, 1]) {
        assert_eq!(user.list().await.len(), expected, "each user sees only their own keys");
    }
}
