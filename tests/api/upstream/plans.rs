//! A registry of a million genes: how long loading takes, and the plans of the service's
//! statements.

use std::time::{Duration, Instant};

use gene_registry::default_schema::seed::LoadedRegistry;
use gene_registry::default_schema::{generate, migrate};
use gene_registry::registry::{
    DomainName, Fidelity, GeneFilter, GeneSearch, Page, Sort, Timestamp,
};
use gene_registry::upstream::RegistryReader;
use gene_registry::upstream::postgres::connect;
use tokio_postgres::Client;

use super::database::{TestDatabase, config, fresh_database};
use crate::doctor::{Findings, of_url};
use crate::support::database::seed;

const GENES: u64 = 1_000_000;
const LARGE: &str = "bench.large";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_of_a_million_genes_use_indexes() {
    let database = fresh_database().await;
    let mut client = database.client().await;
    let begun = Instant::now();
    let genes = generate::genes(GENES, 1);
    let seeded = seed(&mut client, genes, Timestamp::now()).await.expect("loaded");
    println!("loaded {seeded:?} in {:?}", begun.elapsed());
    assert!(matches!(seeded, Some(LoadedRegistry { genes: GENES, .. })));
    ranks_are_exact(&client).await;
    searches_use_indexes(&database).await;
    every_read_succeeds(&database).await;
}

async fn ranks_are_exact(client: &Client) {
    let wrong: i64 = client
        .query_one(
            "SELECT count(*) FROM (SELECT arena_rank, row_number() OVER (
                PARTITION BY domain ORDER BY fitness_score DESC, id) AS place
                FROM registry_read.gene) g WHERE arena_rank <> place",
            &[],
        )
        .await
        .expect("ranks")
        .get(0);
    assert_eq!(wrong, 0);
}

async fn searches_use_indexes(database: &TestDatabase) {
    let client = connect(&config(&database.reader_url)).await.expect("the reader");
    for filter in filters() {
        for sort in Sort::ALL {
            let search = GeneSearch { filter: filter.clone(), sort, page: Page::default() };
            let plan = query_plan(&client, &search).await;
            let mut nodes = Vec::new();
            collect(&plan, &mut nodes);
            for node in nodes {
                let kind = node["Node Type"].as_str().unwrap_or_default();
                let rows = node["Plan Rows"].as_f64().unwrap_or_default();
                assert_ne!(kind, "Seq Scan", "{search:?}: {plan:#}");
                assert!(kind != "Sort" || rows <= 50.0, "{search:?}: {plan:#}");
            }
        }
    }
}

fn filters() -> [GeneFilter; 4] {
    let domain: Option<DomainName> = LARGE.parse().ok();
    let fidelity = Some(Fidelity::Native);
    [
        GeneFilter::default(),
        GeneFilter { domain: domain.clone(), fidelity: None },
        GeneFilter { domain: None, fidelity },
        GeneFilter { domain, fidelity },
    ]
}

/// The plan of the statement that the service sends.
async fn query_plan(client: &Client, search: &GeneSearch) -> serde_json::Value {
    let sql = gene_registry::upstream::postgres::search_statement(search);
    let prepare = format!("PREPARE search AS {sql}");
    client.batch_execute(&prepare).await.expect("prepared");
    let mut values = vec!["20".to_owned(), "0".to_owned()];
    values.extend(search.filter.domain.as_ref().map(|domain| format!("'{domain}'")));
    values.extend(search.filter.fidelity.map(|fidelity| format!("'{}'", fidelity.as_str())));
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE search ({})", values.join(", "));
    let row = client.query_one(&explain, &[]).await.expect("a plan");
    client.batch_execute("DEALLOCATE search").await.expect("forgotten");
    row.get::<_, serde_json::Value>(0)[0]["Plan"].clone()
}

fn collect<'a>(node: &'a serde_json::Value, into: &mut Vec<&'a serde_json::Value>) {
    into.push(node);
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect(child, into);
    }
}

/// Prints how long the statement takes. Runs as the owner, who has no statement timeout.
async fn every_read_succeeds(database: &TestDatabase) {
    let upstream = database.upstream();
    let domain: DomainName = LARGE.parse().expect("a domain");
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        let insights = upstream.insights(&domain, Timestamp::now()).await;
        let value = insights.expect("insights").value.expect("a domain");
        assert!(value.gene_count.get() > 95_000, "{value:?}");
        best = best.min(begun.elapsed());
    }
    println!("insights over {LARGE}: {best:?}");
    for filter in filters() {
        for sort in Sort::ALL {
            let search = GeneSearch { filter: filter.clone(), sort, page: Page::default() };
            let begun = Instant::now();
            upstream.search(&search).await.expect("a page");
            println!("search {:?} {sort:?}: {:?}", search.filter, begun.elapsed());
        }
    }
    let _ = migrate::migrate(&mut database.client().await).await.expect("idempotent");
    let begun = Instant::now();
    Findings::of(&of_url(&database.reader_url)).await.assert_only(&[]);
    println!("doctor: {:?}", begun.elapsed());
}
