//! Configuration and log lines for a Redis that is unavailable.

use std::time::Duration;

use gene_registry::config::WithoutRedis;
use tokio::time::Instant;

use crate::support::binary::ReplicaProcess;
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, sample};
use crate::support::traffic::{routes, uncached_path};
use crate::support::wait::eventually;

/// A replica uses Redis again within this time after Redis is available.
const RECOVERY_LIMIT: Duration = Duration::from_secs(5);
const REPLICAS: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn with_the_refuse_policy_every_replica_responds_503_without_redis() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let fleet = Fleet::start_with(REPLICAS, PostgresServer::shared().await, &redis, |config| {
        config.rate_limit.without_redis = WithoutRedis::Refuse;
        config.redis.timeout_ms = 1_000;
    })
    .await;
    let key = fleet.database.new_key(1_000_000).await;
    let paths = routes(&fleet.database).await;
    assert_eq!(fleet.replicas[0].get(&paths[0], Some(&key)).await.status, 200);

    redis.kill().await;
    for replica in &fleet.replicas {
        for path in &paths {
            let response = replica.get(path, Some(&key)).await;
            response.assert_refused(503, "UNAVAILABLE");
            let wait: u64 = response.header("retry-after").parse().unwrap();
            assert!((1..=60).contains(&wait), "{response:?}");
            assert_eq!(response.header("cache-control"), "no-store");
        }
        replica.get(&paths[0], None).await.assert_refused(401, "UNAUTHORIZED");
    }

    redis.restart().await;
    for replica in &fleet.replicas {
        eventually(RECOVERY_LIMIT, "the replica serves again", || async {
            replica.get(&paths[0], Some(&key)).await.status == 200
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_one_line_for_each_change_of_availability() {
    need_own_servers!();
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::start(&[]).await);
    let database = sample(postgres).await;
    let keys = [database.new_key(1_000_000).await, database.new_key(3).await];
    let (database_url, redis_url) = (database.url_as(READER), redis.url());
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database_url),
        ("REDIS_URL", &redis_url),
        ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "1000"),
    ])
    .await;
    let send_requests = |count: usize| {
        let (process, keys) = (&process, &keys);
        async move {
            for _ in 0..count {
                assert_eq!(process.replica.get(&uncached_path(), Some(&keys[0])).await.status, 200);
                // A key at its limit causes no write.
                let status = process.replica.get("/genes", Some(&keys[1])).await.status;
                assert!(status == 200 || status == 429);
            }
        }
    };
    let lines = |store: &str| {
        let store = format!("redis ({store})");
        let (unavailable, available) =
            (["WARN", store.as_str(), "unavailable"], ["INFO", store.as_str(), "available again"]);
        (process.lines_with(&unavailable), process.lines_with(&available))
    };
    let until_logged = |store: &'static str, expected: (usize, usize)| {
        let lines = &lines;
        eventually(RECOVERY_LIMIT, "the log has the line", move || async move {
            send_requests(1).await;
            lines(store) == expected
        })
    };
    send_requests(10).await;
    assert_eq!((lines("reads"), lines("writes")), ((0, 0), (0, 0)));

    redis.kill().await;
    until_logged("reads", (1, 0)).await;
    send_requests(100).await;
    assert_eq!((lines("reads"), lines("writes")), ((1, 0), (1, 0)));
    process.wait_for_single_line(&["redis (writes)", "unavailable", "refused"]).await;
    redis.restart().await;
    until_logged("reads", (1, 1)).await;
    until_logged("writes", (1, 1)).await;
    send_requests(5).await;

    let () = redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    until_logged("writes", (2, 1)).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        send_requests(10).await;
    }
    assert_eq!((lines("reads"), lines("writes")), ((1, 1), (2, 1)));
    process.wait_for_single_line(&["redis (writes)", "unavailable", "OOM"]).await;
    let () = redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    until_logged("writes", (2, 2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_busy_with_a_script_counts_as_unavailable() {
    need_own_servers!();
    let redis = RedisServer::start(&["--lua-time-limit", "5"]).await;
    let fleet = Fleet::start_with(1, PostgresServer::shared().await, &redis, |config| {
        config.redis.timeout_ms = 1_000;
    })
    .await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(1_000_000).await);
    // The state in /readyz, and what the metrics say: reads, writes, and whether limits are shared.
    let state = async || {
        let ready = replica.ops("/readyz").await.json();
        let metrics = replica.ops("/metrics").await.text;
        let is_one = |series: &str| metrics.contains(&format!("{series} 1\n"));
        let shown = [
            is_one("gene_registry_redis_in_use{side=\"read\"}"),
            is_one("gene_registry_redis_in_use{side=\"write\"}"),
            is_one("gene_registry_limit_policy{state=\"shared\"}"),
        ];
        let words = [&ready["redis_read"], &ready["redis_write"]].map(|word| word == "up");
        (words, shown)
    };
    let until = async |is_available: bool| {
        eventually(RECOVERY_LIMIT, "all show the state of Redis", async || {
            assert_eq!(replica.get(&uncached_path(), Some(&key)).await.status, 200);
            state().await == ([is_available; 2], [is_available; 3])
        })
        .await;
    };
    until(true).await;
    let openings = "gene_registry_breaker_openings_total{store=\"redis_write\"}";
    assert_eq!(replica.metric(openings).await, Some(0.0));

    let busy = redis.try_command::<redis::Value>(&["EVAL", "while true do end", "0"]);
    let busy = tokio::spawn(busy);
    until(false).await;
    for _ in 0..20 {
        assert_eq!(replica.get(&uncached_path(), Some(&key)).await.status, 200);
        assert_eq!(state().await, ([false; 2], [false; 3]));
    }
    assert_eq!(replica.metric(openings).await, Some(1.0), "it stays so");

    let () = redis.command(&["SCRIPT", "KILL"]).await;
    assert!(busy.await.unwrap().is_err());
    until(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_requests_notices_that_redis_is_available_again() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let fleet = Fleet::start_with(1, PostgresServer::shared().await, &redis, |config| {
        config.redis.timeout_ms = 1_000;
    })
    .await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(1_000_000).await);
    let is = async |reads: &str, writes: &str| {
        let ready = replica.ops("/readyz").await.json();
        ready["redis_read"] == reads && ready["redis_write"] == writes
    };
    let assert_state = async |reads: &str, writes: &str| {
        eventually(RECOVERY_LIMIT, "the outage is noticed", async || {
            replica.get(&uncached_path(), Some(&key)).await;
            is(reads, writes).await
        })
        .await;
    };
    let back = async || {
        eventually(RECOVERY_LIMIT, "its return is noticed", async || is("up", "up").await).await
    };

    redis.kill().await;
    assert_state("down", "down").await;
    redis.restart().await;
    back().await;

    let () = redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_state("up", "down").await;
    let refused = async || {
        let errors: String = redis.command(&["INFO", "errorstats"]).await;
        let count = errors.lines().find_map(|line| line.strip_prefix("errorstat_OOM:count="));
        count.map_or(0, |count| count.parse::<u32>().unwrap())
    };
    let before = refused().await;
    eventually(RECOVERY_LIMIT, "the probe tries a write", async || refused().await > before + 1)
        .await;
    assert!(is("up", "down").await, "a server that only serves reads does not count as available");
    let () = redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    back().await;
}
