//! The memory that the local cache reports is what it uses, whatever it holds.

use futures_util::{StreamExt, stream};

use super::assert_ok;
use crate::support::binary::ReplicaProcess;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, sample};

const WEIGHT: &str = "gene_registry_local_cache_bytes";

const AT_ONCE: usize = 16;

/// Requests before a measurement: buffers, connections and the allocator's pages are there then.
const WARM_UP: usize = 600;

const REQUESTS: usize = 6_000;

/// What a process may grow by beside the cache.
const SLACK: u64 = 4 << 20;

/// A long name of a domain that does not exist.
fn domain(number: usize) -> String {
    format!("{number:0>225}")
}

/// What the cache keeps, the status of the responses, and their paths by number.
type Kind = (&'static str, u16, fn(usize) -> String);

async fn visit(
    process: &ReplicaProcess,
    key: &str,
    status: u16,
    paths: impl Iterator<Item = String>,
) {
    let requests = paths.map(|path| async move {
        let response = process.replica.get(&path, Some(key)).await;
        assert_eq!(response.status, status, "{path}: {response:?} {}", process.log());
    });
    stream::iter(requests).buffer_unordered(AT_ONCE).collect::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_local_cache_uses_the_memory_that_it_reports() {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(1_000_000).await;
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("GENE_REGISTRY__LOG__LEVEL", "warn"),
        // A slow statement on a loaded machine is no failure of the database.
        ("GENE_REGISTRY__SERVER__REQUEST_TIMEOUT_MS", "60000"),
        ("GENE_REGISTRY__SHED__WAIT_MS", "10000"),
        ("GENE_REGISTRY__UPSTREAM__WAIT_MS", "10000"),
        ("GENE_REGISTRY__UPSTREAM__CONNECT_MS", "10000"),
        ("GENE_REGISTRY__UPSTREAM__QUERY_MS", "20000"),
        ("GENE_REGISTRY__UPSTREAM__DEADLINE_MS", "30000"),
        ("GENE_REGISTRY__CACHE__NOT_FOUND_S", "3000"),
        ("GENE_REGISTRY__CACHE__SEARCH__FRESH_S", "3000"),
        ("GENE_REGISTRY__CACHE__INSIGHTS__FRESH_S", "3000"),
    ])
    .await;
    assert_ok(&process.replica.get("/genes", Some(&key)).await);
    let paths: [Kind; 3] = [
        ("empty pages and their totals", 200, |n| format!("/genes?domain={}", domain(n))),
        ("what is not found", 404, |n| format!("/arena/insights?domain={}", domain(n))),
        ("full pages with links", 200, |n| {
            format!("/genes?limit={}&offset={}", n % 30 + 1, n / 30)
        }),
    ];
    let mut grown = Vec::new();
    for (what, status, path) in paths {
        visit(&process, &key, status, (REQUESTS..REQUESTS + WARM_UP).map(path)).await;
        let used = async || process.replica.metric(WEIGHT).await.unwrap() as u64;
        let (memory, weight) = (process.memory(), used().await);
        visit(&process, &key, status, (0..REQUESTS).map(path)).await;
        let weight = used().await - weight;
        let memory = process.memory().saturating_sub(memory);
        grown.push((what, memory >> 10, weight >> 10, memory <= weight * 3 / 2 + SLACK));
    }
    println!("grown, resident and reported, kB: {grown:?}");
    assert!(grown.iter().all(|(.., is_covered)| *is_covered), "kB: {grown:?}");
}
