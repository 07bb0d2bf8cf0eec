//! Currency: a catalogue change is visible on every replica within two seconds, whatever the caches
//! hold, and no older state is served after it.

mod catalogue;
mod changed_keys;
mod checker;
mod clocks;
mod deleted_genes;
mod foreign_log;
mod keys;
mod many_changes;
mod mass_change;
mod model;
mod no_log;
mod order;
pub(crate) mod restored;
mod scripted_upstream;
mod slow_log;
mod snapshots;

use std::time::Duration;

use futures_util::future::join_all;
use gene_registry::config::Config;
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica, Response};
use crate::support::wait::{eventually, visible_within};

const REPLICAS: u32 = 3;

/// The time within which a committed change must be visible on every replica.
const VISIBLE_WITHIN: Duration = Duration::from_secs(2);

/// The domain whose genes the tests change, and another one.
pub(crate) const DOMAIN: &str = "search";
const OTHER_DOMAIN: &str = "code.testing";

/// Three replicas whose entries stay fresh longer than any test: only the change log makes them
/// read again.
async fn fleet(postgres: &'static PostgresServer, redis: &RedisServer) -> Fleet<'static> {
    Fleet::start_with(REPLICAS, postgres, redis, always_fresh).await
}

pub(crate) fn always_fresh(config: &mut Config) {
    for ages in [&mut config.cache.search, &mut config.cache.phenotype, &mut config.cache.insights]
    {
        ages.fresh_s = 3_600;
    }
    config.cache.not_found_s = 3_600;
    config.redis.timeout_ms = 1_000;
}

/// A replica without any cache: its responses show the state of the database.
async fn uncached_replica(fleet: &Fleet<'_>) -> Replica {
    let mut config = fleet.config.clone();
    config.redis.url = None;
    config.cache.not_found_s = 0;
    for ages in [&mut config.cache.search, &mut config.cache.phenotype, &mut config.cache.insights]
    {
        (ages.fresh_s, ages.stale_s, ages.if_error_s) = (0, 0, 0);
    }
    Replica::start(&config).await
}

/// The ids of the published genes of a domain, best first.
pub(crate) async fn genes_of(client: &Client, domain: &str) -> Vec<String> {
    let sql = "select id::text from registry_read.gene where domain = $1
        order by fitness_score desc, id";
    client.query(sql, &[&domain]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Paths on all three routes and with all kinds of filters whose responses contain these genes.
pub(crate) fn paths_of(genes: &[String]) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/genes?limit=50",
        "/genes?limit=50&fidelity=Native&sort=downloads",
        "/genes?limit=50&fidelity=Hybrid",
        "/genes?limit=50&fidelity=Wrapped",
    ]
    .map(str::to_owned)
    .into();
    for domain in [DOMAIN, OTHER_DOMAIN] {
        paths.push(format!("/genes?domain={domain}"));
        paths.push(format!("/genes?domain={domain}&limit=1&offset=1"));
        paths.push(format!("/arena/insights?domain={domain}"));
    }
    paths.extend(genes.iter().map(|id| format!("/genes/{id}/phenotype")));
    paths
}

/// Status and body for each path, requested concurrently.
pub(crate) async fn responses(
    replica: &Replica,
    key: &str,
    paths: &[String],
) -> Vec<(u16, String)> {
    let responses = paths.iter().map(|path| async move {
        let response = replica.get(path, Some(key)).await;
        assert!(matches!(response.status.as_u16(), 200 | 404), "{path}: {response:?}");
        (response.status.as_u16(), response.text)
    });
    join_all(responses).await
}

/// Waits until every replica responds to each path as `expected`. Fails if a request sent later
/// than two seconds after `committed` gets the earlier state.
pub(crate) async fn assert_visible(
    replicas: &[Replica],
    key: &str,
    paths: &[String],
    expected: &[(u16, String)],
    committed: Instant,
    what: &str,
) {
    let each = replicas.iter().enumerate().map(|(number, replica)| async move {
        let what = format!("replica {number} shows what changed: {what}");
        visible_within(committed, VISIBLE_WITHIN, &what, || async {
            let found = responses(replica, key, paths).await;
            let differ = (0..paths.len()).filter(|at| found[*at] != expected[*at]);
            let older: Vec<_> = differ.map(|at| &paths[at]).collect();
            if older.is_empty() { Ok(()) } else { Err(format!("older: {older:?}")) }
        })
        .await;
    });
    join_all(each).await;
}

/// As [`assert_visible`], for a change that has just been committed. `uncached`, a replica without
/// caches, shows what is expected.
pub(crate) async fn assert_change_visible(
    replicas: &[Replica],
    key: &str,
    paths: &[String],
    uncached: &Replica,
    what: &str,
) {
    let committed = Instant::now();
    let expected = responses(uncached, key, paths).await;
    assert_visible(replicas, key, paths, &expected, committed, what).await;
}

/// Waits until every replica has a cached response to each path.
async fn wait_until_cached(replicas: &[Replica], key: &str, paths: &[String]) {
    for replica in replicas {
        eventually(Duration::from_secs(10), "responses come from the cache", || async {
            let responses = paths.iter().map(|path| replica.get(path, Some(key)));
            join_all(responses).await.iter().all(is_hit)
        })
        .await;
    }
}

/// Compares responses with those of the database, and names the first path that differs.
#[track_caller]
pub(crate) fn assert_same(found: &[(u16, String)], expected: &[(u16, String)], paths: &[String]) {
    for ((found, expected), path) in found.iter().zip(expected).zip(paths) {
        assert_eq!(found, expected, "{path}");
    }
}

/// Whether the response came from a cache.
fn is_hit(response: &Response) -> bool {
    response.header("cache-status").contains("hit")
}
