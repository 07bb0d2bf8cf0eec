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
    served: &ReplicaProcess,
    key: &str,
    status: u16,
    paths: impl Iterator<Item = String>,
) {
    let requests = paths.map(|path| async move {
        let answer = served.replica.get(&path, Some(key)).await;
        assert_eq!(answer.status, status, "{path}: {answer:?} {}", served.log());
    });
    stream::iter(requests).buffer_unordered(AT_ONCE).collect::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_local_cache_uses_the_memory_that_it_reports() {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(1_000_000).await;
    let served = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("GENE_REGISTRY__LOG__LEVEL", "warn"),
        ("GENE_REGISTRY__CACHE__NOT_FOUND_S", "3000"),
        ("GENE_REGISTRY__CACHE__SEARCH__FRESH_S", "3000"),
        ("GENE_REGISTRY__CACHE__INSIGHTS__FRESH_S", "3000"),
    ])
    .await;
    assert_ok(&served.replica.get("/genes", Some(&key)).await);
    let paths: [Kind; 3] = [
        ("empty pages and their totals", 200, |n| format!("/genes?domain={}", domain(n))),
        ("what is not found", 404, |n| format!("/arena/insights?domain={}", domain(n))),
        ("full pages with links", 200, |n| {
            format!("/genes?limit={}&offset={}", n % 30 + 1, n / 30)
        }),
    ];
    let mut grown = Vec::new();
    for (what, status, path) in paths {
        visit(&served, &key, status, (REQUESTS..REQUESTS + WARM_UP).map(path)).await;
        let used = async || served.replica.metric(WEIGHT).await.unwrap() as u64;
        let (memory, weight) = (served.memory(), used().await);
        visit(&served, &key, status, (0..REQUESTS).map(path)).await;
        let weight = used().await - weight;
        let memory = served.memory().saturating_sub(memory);
        grown.push((what, memory >> 10, weight >> 10, memory <= weight * 3 / 2 + SLACK));
    }
    println!("grown, resident and reported, kB: {grown:?}");
    assert!(grown.iter().all(|(.., is_covered)| *is_covered), "kB: {grown:?}");
}
