//! Redis stopped, hanging, read-only, full or moved: responses stay correct, each replica enforces
//! its share of the limits, and Redis is used again soon after it is available.

use std::time::Duration;

use gene_registry::keys::ApiKey;
use tokio::time::Instant;

use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{Cut, FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica};
use crate::support::traffic::{Traffic, burst, routes, uncached_path};
use crate::support::wait::eventually;

/// A replica uses Redis again within this time after Redis is available.
const RECOVERY_LIMIT: Duration = Duration::from_secs(5);
const REPLICAS: u32 = 3;
const READS_IN_USE: &str = r#"gene_registry_redis_in_use{side="read"}"#;
const WRITES_IN_USE: &str = r#"gene_registry_redis_in_use{side="write"}"#;

/// Sends traffic until every replica reports that it uses Redis, or that it does not.
async fn wait_for_use(fleet: &Fleet<'_>, key: &str, series: &[(&str, bool)]) {
    wait_for_use_by(fleet, key, series, uncached_path).await;
}

async fn wait_for_use_by(
    fleet: &Fleet<'_>,
    key: &str,
    series: &[(&str, bool)],
    path: impl Fn() -> String,
) {
    for replica in &fleet.replicas {
        eventually(RECOVERY_LIMIT, "the metric shows the state of Redis", || async {
            let response = replica.get(&path(), Some(key)).await;
            assert_eq!(response.status, 200, "{response:?}");
            let mut all = true;
            for (name, in_use) in series {
                all &= replica.metric(name).await == Some(f64::from(u8::from(*in_use)));
            }
            all
        })
        .await;
    }
}

async fn wait_until_unavailable(fleet: &Fleet<'_>, key: &str) {
    wait_for_use(fleet, key, &[(READS_IN_USE, false), (WRITES_IN_USE, false)]).await;
}

/// Responses from the local cache are traffic enough.
pub(crate) async fn wait_until_available(fleet: &Fleet<'_>, key: &str) {
    let cached = || "/arena/insights?domain=search".to_owned();
    wait_for_use_by(fleet, key, &[(READS_IN_USE, true), (WRITES_IN_USE, true)], cached).await;
}

/// How many of 30 requests with a new key (limit 20) each replica admits, over all three routes.
pub(crate) async fn admitted_by_each(fleet: &Fleet<'_>) -> Vec<usize> {
    let (key, paths) = (fleet.database.new_key(20).await, routes(&fleet.database).await);
    let mut admitted = Vec::new();
    for replica in &fleet.replicas {
        let mut passed = 0;
        for number in 0..30 {
            let response = replica.get(&paths[number % 3], Some(&key)).await;
            assert_eq!(response.header("x-ratelimit-limit"), "20", "{response:?}");
            if response.status == 200 {
                passed += 1;
            } else {
                response.assert_refused(429, "RATE_LIMITED");
                let wait: u64 = response.header("retry-after").parse().unwrap();
                assert!((1..=60).contains(&wait), "{response:?}");
            }
        }
        admitted.push(passed);
    }
    admitted
}

/// Checks what must hold while Redis cannot be written: each replica admits ceil(20 / 3) requests,
/// responses are correct, and unknown keys are refused.
async fn assert_serving_by_share(fleet: &Fleet<'_>, key: &str) {
    assert_eq!(admitted_by_each(fleet).await, [7, 7, 7]);
    let stranger = ApiKey::generate().unwrap();
    for replica in &fleet.replicas {
        replica.get("/genes", Some(stranger.expose())).await.assert_refused(401, "UNAUTHORIZED");
        for path in routes(&fleet.database).await {
            let response = replica.get(&path, Some(key)).await;
            assert_eq!(response.status, 200, "{response:?}");
            assert_eq!(response.json(), fleet.expected(&path, key).await);
        }
    }
}

/// Checks that counting is exact again across replicas.
pub(crate) async fn assert_counted_together(fleet: &Fleet<'_>) {
    assert_eq!(admitted_by_each(fleet).await, [20, 0, 0]);
}

async fn assert_every_key_expires(redis: &RedisServer, prefix: &str) -> usize {
    let keys = redis.keys(prefix).await;
    for key in &keys {
        // -2: the counter has expired meanwhile.
        let left: i64 = redis.command(&["PTTL", key]).await;
        assert!(left != -1, "{key} never expires");
    }
    keys.len()
}

impl Fleet<'_> {
    /// The response of a replica without Redis and with an empty cache.
    async fn expected(&self, path: &str, key: &str) -> serde_json::Value {
        let mut config = self.config.clone();
        config.redis.url = None;
        Replica::start(&config).await.get(path, Some(key)).await.json()
    }
}

/// Timeouts long enough for exact counts on a loaded machine.
async fn long_timeouts<'a>(postgres: &'a PostgresServer, redis: &RedisServer) -> Fleet<'a> {
    Fleet::start_with(REPLICAS, postgres, redis, |config| config.redis.timeout_ms = 1_000).await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_continue_without_a_killed_redis_and_use_it_after_its_restart() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let fleet = long_timeouts(PostgresServer::shared().await, &redis).await;
    let key = fleet.database.new_key(1_000_000).await;
    wait_until_available(&fleet, &key).await;
    assert_counted_together(&fleet).await;
    assert!(assert_every_key_expires(&redis, &fleet.prefix).await > 0);

    redis.kill().await;
    wait_until_unavailable(&fleet, &key).await;
    assert_serving_by_share(&fleet, &key).await;
    for response in burst(&fleet.replicas, &key, 60).await {
        assert_eq!(response.response.status, 200, "{response:?}");
    }

    redis.restart().await;
    wait_until_available(&fleet, &key).await;
    assert_counted_together(&fleet).await;
    assert!(assert_every_key_expires(&redis, &fleet.prefix).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_hangs_costs_the_first_few_requests_little_and_the_others_nothing() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let fleet = Fleet::start(REPLICAS, PostgresServer::shared().await, &redis).await;
    let key = fleet.database.new_key(1_000_000).await;
    wait_until_available(&fleet, &key).await;

    redis.pause();
    for replica in &fleet.replicas {
        let begun = Instant::now();
        for _ in 0..100 {
            assert_eq!(replica.get(&uncached_path(), Some(&key)).await.status, 200);
        }
        // Waiting for the counter and for both access modes of the cache each time takes 15 s.
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
    wait_until_unavailable(&fleet, &key).await;
    assert_serving_by_share(&fleet, &key).await;

    redis.resume();
    wait_until_available(&fleet, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_start_without_redis_and_connect_when_it_is_available() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    for hangs in [true, false] {
        if hangs {
            redis.pause();
        } else {
            redis.kill().await;
        }
        let fleet = Fleet::start(REPLICAS, PostgresServer::shared().await, &redis).await;
        let key = fleet.database.new_key(1_000_000).await;

        wait_until_unavailable(&fleet, &key).await;
        assert_serving_by_share(&fleet, &key).await;

        if hangs {
            redis.resume();
        } else {
            redis.restart().await;
        }
        wait_until_available(&fleet, &key).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_stalls_refuses_or_cuts_fails_no_request() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let proxy = FaultProxy::start(redis.addr()).await;
    let fleet = Fleet::start_with(REPLICAS, PostgresServer::shared().await, &redis, |config| {
        config.redis.url = Some(proxy.url(&redis.url()).into());
    })
    .await;
    let key = fleet.database.new_key(1_000_000).await;
    wait_until_available(&fleet, &key).await;

    for mode in [Mode::Stall, Mode::Refuse] {
        proxy.set(mode).await;
        wait_until_unavailable(&fleet, &key).await;
        assert_serving_by_share(&fleet, &key).await;
        proxy.set(Mode::Pass).await;
        wait_until_available(&fleet, &key).await;
    }
    for cut in [Cut::Reset, Cut::Close, Cut::Reset, Cut::Close] {
        proxy.cut(cut).await;
        for response in burst(&fleet.replicas, &key, 30).await {
            assert_eq!(response.response.status, 200, "{response:?}");
        }
    }
    proxy.silence();
    wait_until_available(&fleet, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_redis_still_serves_the_cache_and_counts_when_it_is_promoted() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let fleet = long_timeouts(PostgresServer::shared().await, &redis).await;
    let key = fleet.database.new_key(1_000_000).await;
    let shared = uncached_path();
    assert_eq!(fleet.replicas[0].get(&shared, Some(&key)).await.status, 200);
    redis.published(&fleet.prefix).await;

    let () = redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    wait_for_use(&fleet, &key, &[(READS_IN_USE, true), (WRITES_IN_USE, false)]).await;
    let response = fleet.replicas[1].get(&shared, Some(&key)).await;
    assert!(response.header("cache-status").contains("detail=shared"), "{response:?}");
    assert_serving_by_share(&fleet, &key).await;

    let () = redis.command(&["REPLICAOF", "NO", "ONE"]).await;
    wait_until_available(&fleet, &key).await;
    assert_counted_together(&fleet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_still_serves_the_cache_and_counts_when_there_is_room() {
    need_own_servers!();
    let redis = RedisServer::start(&["--maxmemory-policy", "noeviction"]).await;
    let fleet = long_timeouts(PostgresServer::shared().await, &redis).await;
    let key = fleet.database.new_key(1_000_000).await;
    let shared = uncached_path();
    assert_eq!(fleet.replicas[0].get(&shared, Some(&key)).await.status, 200);
    redis.published(&fleet.prefix).await;

    let () = redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    wait_for_use(&fleet, &key, &[(READS_IN_USE, true), (WRITES_IN_USE, false)]).await;
    let response = fleet.replicas[1].get(&shared, Some(&key)).await;
    assert!(response.header("cache-status").contains("detail=shared"), "{response:?}");
    assert_serving_by_share(&fleet, &key).await;
    assert_every_key_expires(&redis, &fleet.prefix).await;

    let () = redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    wait_until_available(&fleet, &key).await;
    assert_counted_together(&fleet).await;
    assert_every_key_expires(&redis, &fleet.prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_to_another_address_behind_the_same_name_is_followed() {
    need_own_servers!();
    let (old, new) = (RedisServer::start(&[]).await, RedisServer::start(&[]).await);
    let proxy = FaultProxy::start(old.addr()).await;
    let fleet = Fleet::start_with(REPLICAS, PostgresServer::shared().await, &old, |config| {
        config.redis.url = Some(proxy.url(&old.url()).into());
        config.redis.timeout_ms = 1_000;
    })
    .await;
    let key = fleet.database.new_key(1_000_000).await;
    wait_until_available(&fleet, &key).await;
    let traffic = Traffic::start(&fleet, &key, "/arena/insights?domain=search");

    // The old primary keeps serving its existing connections, as a replica of the new one.
    proxy.retarget(new.addr());
    let port = new.addr().rsplit_once(':').unwrap().1.to_owned();
    let () = old.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    eventually(RECOVERY_LIMIT, "the new primary counts", || async {
        !new.keys(&format!("{}:limit", fleet.prefix)).await.is_empty()
    })
    .await;
    wait_until_available(&fleet, &key).await;
    let responses = traffic.stop().await;

    assert!(responses.iter().all(|response| response.status == 200));
    assert_counted_together(&fleet).await;
}
