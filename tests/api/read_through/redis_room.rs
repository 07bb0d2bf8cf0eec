//! The room that cache entries have in Redis: how long they stay there, and what is left for the
//! counters of the limits.

use std::time::Duration;

use tokio::time::interval;

use super::{REPLICAS, TIMEOUT, assert_ok, entry_keys, fleet_with_probe, sum, wait_until_ready};
use crate::redis_faults::assert_counted_together;
use crate::support::binary::ReplicaProcess;
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, sample};
use crate::support::traffic::{routes, uncached_path};
use crate::support::wait::eventually;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

const USED: &str = "gene_registry_redis_memory_ratio";
const NO_ROOM: &str = "gene_registry_shared_no_room_total";
const WRITES_IN_USE: &str = r#"gene_registry_redis_in_use{side="write"}"#;

/// Checks the times to live of pages with genes: `life`, shortened by the jitter, of which a slow
/// machine has used some; and of pages without, which are fresh for 30 s, and then stale for 30 s.
#[track_caller]
fn assert_left(entries: &[(bool, i64)], life: i64) {
    for (is_empty, left) in entries {
        let min = if *is_empty { 0 } else { life * 8 / 10 - 120_000 };
        let max = if *is_empty { 60_000 } else { life };
        assert!((min..=max).contains(left), "{entries:?}");
    }
}

/// Whether its page has no genes, and the time to live, of each entry in Redis.
async fn times_left(fleet: &Fleet<'_>) -> Vec<(bool, i64)> {
    let redis = RedisServer::shared().await;
    let mut all = Vec::new();
    for key in entry_keys(fleet).await {
        let is_empty = key.contains("nobody.asked") || key.contains(":20:5000");
        all.push((is_empty, redis.command(&["PTTL", &key]).await));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn only_refreshed_entries_with_genes_are_kept_for_a_day() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let key = fleet.database.new_key(1_000_000).await;
    let mut paths = Vec::from(routes(&fleet.database).await);
    paths.extend([uncached_path(), "/genes?offset=5000".to_owned()]);

    // Older than it may be served, so that the next request reads it again.
    probe.age_by(3_000);
    for path in &paths {
        assert_ok(&fleet.replicas[0].get(path, Some(&key)).await);
    }
    let first = times_left(&fleet).await;
    probe.age_by(0);
    for path in &paths {
        assert_ok(&fleet.replicas[0].get(path, Some(&key)).await);
    }
    let refreshed = times_left(&fleet).await;

    assert_eq!((first.len(), refreshed.len()), (paths.len(), paths.len()));
    assert_left(&first, HOUR_MS);
    assert_left(&refreshed, DAY_MS);
}

/// Searches with different pages, most of them long.
fn searches(count: usize) -> Vec<String> {
    let sorts = ["fitness", "reputation", "downloads"];
    let all = (0..120).flat_map(|offset| {
        (20..=50).rev().flat_map(move |limit| {
            sorts.map(|sort| format!("/genes?sort={sort}&limit={limit}&offset={offset}"))
        })
    });
    all.take(count).collect()
}

/// The memory of the test: its size, the number of searches, and how many of them a minute.
fn size() -> (u64, usize, u64) {
    match std::env::var("GENE_REGISTRY_REDIS_ROOM_MB") {
        Ok(megabytes) => (megabytes.parse().unwrap(), 11_000, 5_000),
        Err(_) => (16, 400, 60_000),
    }
}

/// With `GENE_REGISTRY_REDIS_ROOM_MB=512` (tests/more redis-room) it fills as many megabytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_walks_all_searches_twice_leaves_room_for_counters() {
    need_own_servers!();
    let (megabytes, count, per_minute) = size();
    let max = format!("{megabytes}mb");
    let redis = RedisServer::start(&["--maxmemory", &max]).await;
    let fleet = Fleet::start_with(REPLICAS, PostgresServer::shared().await, &redis, |config| {
        super::long_timeouts(config);
        // Each request reads, so that asking twice refreshes.
        config.cache.search.fresh_s = 0;
        config.cache.search.stale_s = 0;
    })
    .await;
    wait_until_ready(&fleet.replicas).await;
    let key = fleet.database.new_key(1_000_000).await;
    for replica in &fleet.replicas {
        eventually(TIMEOUT, "the memory is known", async || replica.metric(USED).await.is_some())
            .await;
    }

    let searches = searches(count);
    let mut pace = interval(Duration::from_millis(60_000 / per_minute));
    for (n, path) in searches.iter().chain(&searches).enumerate() {
        pace.tick().await;
        assert_ok(&fleet.replicas[n % 3].get(path, Some(&key)).await);
    }

    redis.published(&fleet.prefix).await;
    let stored = redis.keys(&format!("{}:entry", fleet.prefix)).await.len();
    let info: String = redis.command(&["INFO", "memory"]).await;
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let share = used.trim().parse::<f64>().unwrap() / (megabytes << 20) as f64;
    assert!((0.4..0.95).contains(&share), "{share}, {stored} entries");
    println!("{stored} of {} searches are in Redis, which is full to {share}", searches.len());
    for replica in &fleet.replicas {
        assert_eq!(replica.metric(WRITES_IN_USE).await, Some(1.0));
        let opened = r#"gene_registry_breaker_openings_total{store="redis_write"}"#;
        assert_eq!(replica.metric(opened).await, Some(0.0));
        let local = replica.metric("gene_registry_limit_local_fallback_total").await;
        assert_eq!(local, Some(0.0), "every request was counted in Redis");
    }
    assert_counted_together(&fleet).await;
    assert!(stored < searches.len() && sum(&fleet.replicas, NO_ROOM).await > 0, "no room for all");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_refuses_to_tell_is_used_and_reported_once() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let rights = ["~*", "+@all", "-info"];
    let user = ["ACL", "SETUSER", "silent", "reset", "on", ">secret"];
    let () = redis.command(&[&user[..], &rights].concat()).await;
    let url = redis.url().replace("://", "://silent:secret@");
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(1_000_000).await;
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("REDIS_URL", &url),
        ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "5000"),
    ])
    .await;

    process.wait_for_single_line(&["redis does not tell how full it is", "+info"]).await;
    eventually(TIMEOUT, "entries are shared all the same", async || {
        assert_ok(&process.replica.get(&uncached_path(), Some(&key)).await);
        !redis.keys("gr:entry:").await.is_empty()
    })
    .await;
    // It has been asked again.
    eventually(TIMEOUT, "the memory is read again", async || {
        let errors: String = redis.command(&["INFO", "errorstats"]).await;
        errors.contains("errorstat_NOPERM:count=2")
    })
    .await;

    assert_eq!(process.lines_with(&["redis does not tell how full it is"]), 1);
    let opened = r#"gene_registry_breaker_openings_total{store="redis_read"}"#;
    assert_eq!(process.replica.metric(opened).await, Some(0.0));
    assert_eq!(process.replica.metric(USED).await, None);
}
