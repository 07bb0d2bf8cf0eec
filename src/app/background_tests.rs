//! Causes a panic in each background task of a replica. Tasks that need another server to run have
//! tests of their own, beside what they call.

use std::path::PathBuf;

use crate::app::{self, KeyManagement, Running};
use crate::config::{AgesConfig, Config, LoadedConfig, Topology};
use crate::keys::{ApiKey, MemoryKeys};
use crate::registry::{ApiKeyRecord, Catalogue, Timestamp};
use crate::sync::fault::{cause_panic, tasks};
use crate::upstream::{Embedded, Postgres};

use super::*;

/// All that run in this test, sorted.
const TASKS: &[&str] = &[
    "accept_loop",
    "cache_counts",
    "cache_loads",
    "cache_publications",
    "cache_refreshes",
    "certificate_watch",
    "change_log_polls",
    "database_history",
    "key_changes",
    "key_lookups",
    "key_record_batches",
    "key_usage",
    "limit_batches",
    "metrics_upkeep",
    "postgres_pool_trim",
    "public_numbers",
    "readiness",
    "redis_batches",
    "redis_cluster_polls",
    "redis_memory",
    "redis_probes",
    #[cfg(feature = "otlp")]
    "trace_export",
];

#[test]
fn the_runbook_says_what_the_panic_of_each_task_means() {
    let runbook = include_str!("../../docs/operations.md");
    let table = runbook.split_once("### GeneRegistryTaskPanics").expect("an alert").1;
    let table = table.split_once("\n### ").expect("another alert").0;
    let is_missing = |task: &&&str| !table.contains(&format!("`{task}`"));
    let missing: Vec<_> = TASKS.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Listens on free ports, with a Redis and a collector that are unavailable.
fn config() -> Config {
    let mut config = LoadedConfig::read(None).expect("the defaults").config;
    let free = "127.0.0.1:0".parse().expect("an address");
    (config.server.bind, config.ops.bind) = (free, free);
    config.redis.url = Some("redis://127.0.0.1:1".to_owned().into());
    config.cache.search = AgesConfig { fresh_s: 0, stale_s: 3_600, if_error_s: 3_600 };
    config.keys.usage_every_s = 1;
    config.server.drain_ms = 0;
    config.pages.public_numbers = true;
    config.telemetry.otlp_endpoint = cfg!(feature = "otlp").then(|| "http://127.0.0.1:1".into());
    config.telemetry.sample_ratio = 1.0;
    config
}

/// A replica of the sample registry, with a key.
async fn replica(config: &Config) -> (Running, String) {
    let key = ApiKey::generate().expect("randomness");
    let record = ApiKeyRecord {
        hash: key.hash(),
        prefix: key.prefix().to_owned(),
        owner: "team-test".to_owned(),
        name: "test".to_owned(),
        scopes: vec!["read".to_owned()],
        rate_limit_per_minute: 1_000_000,
        expires_at: None,
        revoked_at: None,
    };
    let sample = Catalogue::sample().expect("the sample registry");
    let registry = Embedded::from_catalogue(&sample, Timestamp::now(), vec![record], String::new());
    let keys = KeyManagement { store: Arc::new(MemoryKeys::new(registry.keys())), writable: true };
    let running = app::start_with_keys(config, Arc::new(registry), Some(keys)).await;
    (running.expect("it starts"), key.expose().to_owned())
}

/// Certificate and key, as files in `folder`.
fn certificate(folder: &std::path::Path) -> [Option<PathBuf>; 2] {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let texts = [("cert.pem", made.cert.pem()), ("key.pem", made.signing_key.serialize_pem())];
    texts.map(|(name, text)| {
        std::fs::write(folder.join(name), text).expect("a file");
        Some(folder.join(name))
    })
}

/// The status of a search that is not cached.
async fn search(running: &Running, key: &str, number: usize) -> reqwest::StatusCode {
    let url = format!("{}/genes?limit=1&offset={number}", running.base_url());
    let sent = reqwest::Client::new().get(url).header("X-API-Key", key).send().await;
    sent.expect("a response").status()
}

#[tokio::test]
async fn each_task_is_restarted_after_a_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut with_tls = config();
    with_tls.redis.topology = Topology::Cluster;
    with_tls.redis.urls = with_tls.redis.url.take().into_iter().collect();
    [with_tls.server.tls.cert_file, with_tls.server.tls.key_file] = certificate(folder.path());
    // It must panic before the replica is ready, and so be restarted to make it ready.
    cause_panic("readiness");
    let (running, key) = replica(&config()).await;
    let (secured, _) = replica(&with_tls).await;
    let mut database = config().upstream;
    database.url = Some("postgres://127.0.0.1:1/none".to_owned().into());
    let _pools = Postgres::new(&database, String::new()).expect("a pool");
    assert_eq!(search(&running, &key, 0).await, 200);

    TASKS.iter().filter(|task| **task != "readiness").for_each(|task| cause_panic(task));
    let mut number = 0;
    let restarted = tokio::time::timeout(Duration::from_secs(60), async {
        while TASKS.iter().any(|task| tasks().get(task) != Some(&true)) {
            number += 1;
            // One to be refreshed, one to be read, and one with a key to be looked up. Some fail now.
            search(&running, &key, 0).await;
            search(&running, &key, number).await;
            let unknown = ApiKey::generate().expect("randomness");
            search(&running, unknown.expose(), 0).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });

    assert!(restarted.await.is_ok(), "{:?}", tasks());
    assert_eq!(search(&running, &key, number + 1).await, 200);
    let mut run: Vec<_> = tasks().into_keys().collect();
    run.sort_unstable();
    assert_eq!(run, TASKS, "each task has its place in this test");
    let metrics = reqwest::get(format!("{}/metrics", running.ops_url())).await;
    let metrics = metrics.expect("a response").text().await.expect("text");
    for task in TASKS {
        let series = format!("gene_registry_task_panics_total{{task=\"{task}\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&series));
        assert!(count.is_some_and(|count| count != "0"), "{series}: {metrics}");
    }
    tokio::join!(running.shutdown(), secured.shutdown());
}
