//! A Redis that can be read but not written: its entries are still served, and writes are skipped.

use super::{
    Loads, TIMEOUT, assert_ok, fresh_searches, loads, long_timeouts, sum, wait_until_ready,
};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

const FAILURES: &str = "gene_registry_shared_write_failures_total";
const WRITE: &str = r#"gene_registry_redis_in_use{side="write"}"#;
const READ: &str = r#"gene_registry_redis_in_use{side="read"}"#;

async fn fleet(redis: &RedisServer) -> Fleet<'static> {
    let postgres = PostgresServer::shared().await;
    Fleet::start_with(3, postgres, redis, |config| {
        long_timeouts(config);
        fresh_searches(config);
    })
    .await
}

async fn assert_all_expire(redis: &RedisServer, prefix: &str) -> usize {
    let keys = redis.keys(prefix).await;
    for key in &keys {
        let left: i64 = redis.command(&["PTTL", key]).await;
        // -2: the counter has expired meanwhile.
        assert_ne!(left, -1, "{key} never expires");
    }
    keys.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_loses_only_writes() {
    need_own_servers!();
    let redis = RedisServer::start(&["--maxmemory-policy", "noeviction"]).await;
    let fleet = fleet(&redis).await;
    wait_until_ready(&fleet.replicas).await;
    let key = fleet.database.new_key(1_000_000).await;
    let shared: Vec<String> = (0..20).map(|_| uncached_path()).collect();
    for path in &shared {
        assert_ok(&fleet.replicas[0].get(path, Some(&key)).await);
    }
    redis.published(&fleet.prefix).await;
    assert!(assert_all_expire(&redis, &fleet.prefix).await > 20);
    // Room for a little more: the limit is reached in the middle of traffic.
    let info: String = redis.command(&["INFO", "memory"]).await;
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let ceiling = (used.trim().parse::<u64>().unwrap() + 16_384).to_string();
    let () = redis.command(&["CONFIG", "SET", "maxmemory", &ceiling]).await;

    for n in 0..600 {
        // A reading of the memory in this moment would end the publications before it is full.
        if n == 300 {
            let filler = format!("{}:filler", fleet.prefix);
            let fill = ["SET", &filler, &"x".repeat(32_768), "EX", "600"];
            drop(redis.try_command::<String>(&fill).await);
        }
        assert_ok(&fleet.replicas[n % 3].get(&uncached_path(), Some(&key)).await);
    }

    for replica in &fleet.replicas {
        eventually(TIMEOUT, "the breaker for writes has opened", || async {
            assert_ok(&replica.get(&uncached_path(), Some(&key)).await);
            replica.metric(WRITE).await == Some(0.0)
        })
        .await;
        assert_eq!(replica.metric(READ).await, Some(1.0));
    }
    assert_all_expire(&redis, &fleet.prefix).await;
    // Replicas that have not cached the existing entries get them from Redis.
    for path in &shared {
        let response = fleet.replicas[1].get(path, Some(&key)).await;
        let status = response.header("cache-status");
        assert!(status.contains("detail=shared") && status.contains("; hit"), "{response:?}");
    }
    // Writes are tried once in a while, not for each response.
    let before = sum(&fleet.replicas, FAILURES).await;
    for n in 0..300 {
        assert_ok(&fleet.replicas[n % 3].get(&uncached_path(), Some(&key)).await);
    }
    let failed = sum(&fleet.replicas, FAILURES).await - before;
    assert!(failed < 200, "{failed}");
    let Loads { failed, .. } = loads(&fleet.replicas).await;
    assert_eq!(failed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_redis_serves_its_entries_and_is_not_written_for_each_request() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let fleet = fleet(&redis).await;
    wait_until_ready(&fleet.replicas).await;
    let key = fleet.database.new_key(1_000_000).await;
    let path = uncached_path();
    assert_ok(&fleet.replicas[0].get(&path, Some(&key)).await);
    redis.published(&fleet.prefix).await;

    let () = redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    for replica in &fleet.replicas {
        eventually(TIMEOUT, "the breaker for writes has opened", || async {
            assert_ok(&replica.get(&uncached_path(), Some(&key)).await);
            replica.metric(WRITE).await == Some(0.0)
        })
        .await;
        assert_eq!(replica.metric(READ).await, Some(1.0));
    }
    for replica in &fleet.replicas[1..] {
        let response = replica.get(&path, Some(&key)).await;
        assert!(response.header("cache-status").contains("detail=shared"), "{response:?}");
    }
    let before = loads(&fleet.replicas).await.ok;
    for n in 0..90 {
        assert_ok(&fleet.replicas[n % 3].get(&uncached_path(), Some(&key)).await);
    }
    assert_eq!(loads(&fleet.replicas).await, Loads { ok: before + 90, failed: 0 });
    assert!(sum(&fleet.replicas, FAILURES).await < 60);
}
