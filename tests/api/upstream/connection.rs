//! Connections that die, statements that take too long, callers that leave.

use std::time::{Duration, Instant};

use gene_registry::config::UpstreamConfig;
use gene_registry::registry::{GeneSearch, KeyHash};
use gene_registry::upstream::{ChangeFeed, Postgres, RegistryReader, UpstreamError};
use tokio_postgres::Client;

use super::behaviour::{domain, gene, now};
use super::database::{TEMPLATE, TestDatabase, config, fresh_database};
use crate::support::database::ReadKey;

fn upstream(config: &UpstreamConfig) -> Postgres {
    Postgres::new(config, TEMPLATE.to_owned()).expect("an upstream")
}

/// Timeouts that expire soon, yet leave a slow machine enough time for a statement without a lock.
fn short_timeouts(database: &TestDatabase) -> UpstreamConfig {
    UpstreamConfig { query_ms: 1_500, wait_ms: 1_500, deadline_ms: 5_000, ..config(&database.url) }
}

/// The current statements of our connections to this database.
async fn count(client: &Client, condition: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND pid <> pg_backend_pid() AND {condition}"
    );
    client.query_one(&sql, &[]).await.expect("activity").get(0)
}

async fn wait_for_none(client: &Client, condition: &str) {
    let begun = Instant::now();
    while count(client, condition).await > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "still: {condition}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Terminates all other connections to the database; returns how many there were.
async fn terminate_all(client: &Client) -> usize {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.query(sql, &[]).await.expect("terminated").len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_idle_connections_fail_no_read() {
    let database = fresh_database().await;
    let upstream = std::sync::Arc::new(database.upstream());
    let search = GeneSearch::default();
    let admin = database.client().await;
    for _ in 0..20 {
        // Concurrent reads, so that the pool holds several connections.
        let reads = (0..4).map(|_| {
            let (upstream, search) = (upstream.clone(), search.clone());
            tokio::spawn(async move { upstream.search(&search).await })
        });
        for read in reads.collect::<Vec<_>>() {
            read.await.expect("no panic").expect("a page");
        }
        assert!(terminate_all(&admin).await > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_table_is_a_timeout_and_leaves_no_statement() {
    let database = fresh_database().await;
    let upstream = std::sync::Arc::new(upstream(&short_timeouts(&database)));
    upstream.position().await.expect("a connection");
    let (admin, mut locker) = (database.client().await, database.client().await);
    let lock = locker.transaction().await.expect("a transaction");
    lock.batch_execute("LOCK TABLE registry.gene").await.expect("a lock");
    let begun = Instant::now();
    let reads: Vec<_> = (0..40)
        .map(|_| {
            let upstream = upstream.clone();
            tokio::spawn(async move { upstream.search(&GeneSearch::default()).await })
        })
        .collect();
    for read in reads {
        let found = read.await.expect("no panic");
        assert!(matches!(found, Err(UpstreamError::Timeout)), "{found:?}");
    }
    // One after the other they would take as long as a minute.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    // Another table is not affected, and the cancelled statements are gone though the lock remains.
    upstream.api_key(&KeyHash([0; 32])).await.expect("a read");
    wait_for_none(&admin, "wait_event_type = 'Lock'").await;
    lock.rollback().await.expect("unlocked");
    upstream.search(&GeneSearch::default()).await.expect("a page");
    wait_for_none(&admin, "state = 'active'").await;
    assert!(count(&admin, "application_name = 'gene-registry'").await <= 5);
}

#[tokio::test]
async fn dropping_a_read_cancels_its_statement() {
    let database = fresh_database().await;
    let upstream = database.upstream();
    let (admin, mut locker) = (database.client().await, database.client().await);
    let lock = locker.transaction().await.expect("a transaction");
    lock.batch_execute("LOCK TABLE registry.gene").await.expect("a lock");
    for _ in 0..10 {
        let search = GeneSearch::default();
        let read = upstream.search(&search);
        let left = tokio::time::timeout(Duration::from_millis(50), read).await;
        assert!(left.is_err());
    }
    wait_for_none(&admin, "wait_event_type = 'Lock'").await;
    lock.rollback().await.expect("unlocked");
    upstream.search(&GeneSearch::default()).await.expect("a page");
}

#[tokio::test]
async fn every_read_works_with_unnamed_statements() {
    let database = fresh_database().await;
    database.load(vec![gene(1, "d", &[(1, 0.5)])], now()).await;
    let config = UpstreamConfig { prepared_statements: false, ..config(&database.url) };
    let upstream = upstream(&config);
    let page = upstream.search(&GeneSearch::default()).await.expect("a page").value;
    assert_eq!(page.data[0].arena_history.len(), 1);
    let found = upstream.phenotype(page.data[0].id).await.expect("a read").value;
    assert!(found.is_some());
    let found = upstream.insights(&domain("d"), now()).await.expect("a read").value;
    assert!(found.is_some());
    assert_eq!(upstream.api_key(&KeyHash([0; 32])).await.expect("a read").value, None);
}

#[tokio::test]
async fn failed_and_unreachable_databases_are_different_errors() {
    let database = fresh_database().await;
    let nobody = "postgres://nobody:hunter2@127.0.0.1:1/nowhere".to_owned();
    let found = upstream(&config(&nobody)).position().await;
    let Err(UpstreamError::Unreachable(_)) = &found else { panic!("{found:?}") };
    assert!(!format!("{found:?}").contains("hunter2"));
    let elsewhere = format!("{}_not", database.url);
    let found = upstream(&config(&elsewhere)).position().await;
    assert!(matches!(found, Err(UpstreamError::LoginRefused(_))), "{found:?}");
    let client = database.client().await;
    client.batch_execute("DROP VIEW registry_read.gene").await.expect("dropped");
    let found = database.upstream().search(&GeneSearch::default()).await;
    assert!(matches!(found, Err(UpstreamError::Failed(_))), "{found:?}");
}

#[tokio::test]
async fn views_may_be_replaced_while_the_service_runs() {
    let database = fresh_database().await;
    database.load(vec![gene(1, "d", &[(1, 0.5)])], now()).await;
    let (upstream, client) = (database.upstream(), database.client().await);
    for _ in 0..3 {
        for _ in 0..7 {
            upstream.search(&GeneSearch::default()).await.expect("a page");
            upstream.insights(&domain("d"), now()).await.expect("a read");
        }
        client
            .batch_execute(
                "BEGIN; DROP VIEW registry_read.gene; CREATE VIEW registry_read.gene AS
                SELECT id, name::varchar, domain::varchar, fidelity, description, 'o' AS owner,
                    fitness_score::numeric, reputation_score, downloads::int, arena_rank,
                    phenotype, install_command, min_playground_version, required_fidelity
                FROM registry.gene WHERE published; COMMIT",
            )
            .await
            .expect("another view");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_concurrent_reads_than_connections_all_succeed() {
    let database = fresh_database().await;
    let config = UpstreamConfig { pool_size: 2, ..config(&database.url) };
    let upstream = std::sync::Arc::new(upstream(&config));
    let reads: Vec<_> = (0..200)
        .map(|_| {
            let upstream = upstream.clone();
            tokio::spawn(async move { upstream.search(&GeneSearch::default()).await })
        })
        .collect();
    for read in reads {
        read.await.expect("no panic").expect("a page");
    }
    let admin = database.client().await;
    assert!(count(&admin, "application_name = 'gene-registry'").await <= 3);
}
