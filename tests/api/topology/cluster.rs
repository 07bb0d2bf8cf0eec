//! A cluster: counters and cache entries are on the nodes that have their slots, and neither a
//! failed node nor a moved slot fails a request.

use std::time::Duration;

use gene_registry::config::{Config, Topology};
use gene_registry::keys::ApiKey;

use super::steady_load::{SteadyLoad, use_up};
use crate::redis_faults::{admitted_by_each, assert_counted_together, wait_until_available};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis_cluster::RedisCluster;
use crate::support::replica::Fleet;
use crate::support::traffic::{Traffic, uncached_path};
use crate::support::wait::{eventually, until};

/// The window of a key's limit.
const WINDOW: Duration = Duration::from_secs(60);

/// Within this time, the new primary is used.
const RECOVERY_LIMIT: Duration = Duration::from_secs(10);

async fn fleet(redis: &RedisCluster) -> Fleet<'static> {
    let configure = |config: &mut Config| {
        config.redis.url = None;
        config.redis.topology = Topology::Cluster;
        config.redis.urls = redis.urls().into_iter().map(Into::into).collect();
        // Long enough that a loaded machine is not mistaken for a Redis that is unavailable.
        config.redis.timeout_ms = 3_000;
    };
    let postgres = PostgresServer::shared().await;
    let fleet = Fleet::start_with(3, postgres, &redis.nodes[0], configure).await;
    let key = fleet.database.new_key(1_000_000).await;
    wait_until_available(&fleet, &key).await;
    fleet
}

/// A slot without a working node does not stop the other nodes.
async fn serve_remaining_slots(redis: &RedisCluster) {
    for node in &redis.nodes {
        let () = node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).await;
    }
}

/// A new key, and the slot of its counter.
async fn key_with_slot(redis: &RedisCluster, fleet: &Fleet<'_>, limit: u32) -> (String, u16) {
    let key = fleet.database.new_key(limit).await;
    let id = key.parse::<ApiKey>().unwrap().hash().id();
    let slot = redis.slot(&format!("{}:limit:{id}", fleet.prefix)).await;
    (key, slot)
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_and_cache_entries_are_on_all_nodes_and_all_of_them_expire() {
    need_own_servers!();
    let redis = RedisCluster::start().await;
    let fleet = fleet(&redis).await;
    assert_counted_together(&fleet).await;
    let mut shared = 0;
    for _ in 0..30 {
        let (path, key) = (uncached_path(), fleet.database.new_key(100).await);
        assert_eq!(fleet.replicas[0].get(&path, Some(&key)).await.status, 200);
        let response = fleet.replicas[1].get(&path, Some(&key)).await;
        shared += usize::from(response.header("cache-status").contains("detail=shared"));
        assert_eq!(response.header("x-ratelimit-remaining"), "98", "{response:?}");
    }
    // The other replica waited for the publication, if it had to.
    assert_eq!(shared, 30);
    let keys = redis.keys("").await;
    assert!(keys.len() > 60, "{keys:?}");
    for (key, left) in keys {
        assert!(key.starts_with(&fleet.prefix) && left != -1, "{key} {left}");
    }
    for primary in redis.primaries(0).await {
        assert!(!redis.nodes[primary].keys(&fleet.prefix).await.is_empty(), "{primary}");
    }
    eventually(RECOVERY_LIMIT, "the memory of the fullest node is known", async || {
        fleet.replicas[0].metric("gene_registry_redis_memory_ratio").await.is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_primary_is_replaced_by_its_replica_and_other_keys_are_not_affected() {
    need_own_servers!();
    let redis = RedisCluster::start().await;
    serve_remaining_slots(&redis).await;
    let fleet = fleet(&redis).await;
    let (limited, slot) = key_with_slot(&redis, &fleet, 60).await;
    let busy = fleet.database.new_key(1_000_000).await;
    let traffic = Traffic::start(&fleet, &busy, "/arena/insights?domain=search");
    let steady_load = SteadyLoad::start(&fleet, &limited);

    let lost = redis.primary_of(slot, 0).await;
    redis.nodes[lost].kill().await;
    let unharmed = loop {
        let (key, slot) = key_with_slot(&redis, &fleet, 20).await;
        if redis.primary_of(slot, (lost + 1) % 6).await != lost {
            break key;
        }
    };
    assert_eq!(admitted(&fleet, &unharmed).await, 20);

    let now = redis.taken_over(slot, lost).await;
    let fresh = fleet.database.new_key(1_000_000).await;
    eventually(RECOVERY_LIMIT, "the node that took over counts and caches", || async {
        for replica in &fleet.replicas {
            assert_eq!(replica.get("/genes", Some(&fresh)).await.status, 200);
        }
        let limits = redis.nodes[now].keys(&format!("{}:limit", fleet.prefix)).await;
        let responses = redis.nodes[now].keys(&format!("{}:entry", fleet.prefix)).await;
        !limits.is_empty() && !responses.is_empty()
    })
    .await;
    wait_until_available(&fleet, &fresh).await;
    let (hammered, refused) = steady_load.stop().await;
    let passed = hammered + use_up(&fleet, &limited).await;
    // The limit, the same again for the data that a fail-over may lose, and each replica's share.
    assert!((60..=180).contains(&passed), "{passed} admitted, {refused} refused");
    for response in traffic.stop().await {
        assert_eq!(response.status, 200, "{response:?}");
    }
    for _ in 0..5 {
        assert_eq!(admitted_by_each(&fleet).await, [20, 0, 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_without_a_node_concerns_only_its_own_keys() {
    need_own_servers!();
    let redis = RedisCluster::start().await;
    serve_remaining_slots(&redis).await;
    let fleet = fleet(&redis).await;
    let (orphan, slot) = key_with_slot(&redis, &fleet, 20).await;
    let path = "/genes?limit=7";
    let busy = fleet.database.new_key(1_000_000).await;
    assert_eq!(fleet.replicas[0].get(path, Some(&busy)).await.status, 200);
    let entry = until(RECOVERY_LIMIT, "the entry is published", || async {
        let entries = redis.keys(&format!("{}:entry", fleet.prefix)).await;
        entries.into_iter().map(|(key, _)| key).find(|key| key.contains(":7:0"))
    })
    .await;
    let entry_slot = redis.slot(&entry).await;
    let owner = redis.primary_of(slot, 0).await;
    redis.unassign(slot).await;
    redis.unassign(entry_slot).await;

    for round in 0..9 {
        let (key, slot) = key_with_slot(&redis, &fleet, 20).await;
        let (mut exact, mut by_share) = (0, 0);
        for number in 0..90 {
            let replica = &fleet.replicas[number % 3];
            by_share += usize::from(replica.get("/genes", Some(&orphan)).await.status == 200);
            exact += usize::from(replica.get("/genes", Some(&key)).await.status == 200);
            assert_eq!(replica.get(path, Some(&busy)).await.status, 200);
        }
        assert_eq!(exact, 20, "round {round}, slot {slot}");
        assert_eq!(by_share, if round == 0 { 21 } else { 0 }, "round {round}");
        let path = uncached_path();
        assert_eq!(fleet.replicas[0].get(&path, Some(&busy)).await.status, 200);
        let answer = fleet.replicas[1].get(&path, Some(&busy)).await;
        assert!(answer.header("cache-status").contains("detail=shared"), "{answer:?}");
    }
    for replica in &fleet.replicas {
        for store in ["redis_read", "redis_write"] {
            let openings = format!("gene_registry_breaker_openings_total{{store=\"{store}\"}}");
            assert_eq!(replica.metric(&openings).await, Some(0.0), "{store}");
        }
        let state = replica.metric("gene_registry_limit_policy{state=\"local\"}").await;
        assert_eq!(state, Some(1.0), "some keys are counted by share");
    }

    redis.assign(slot, owner).await;
    redis.assign(entry_slot, owner).await;
    eventually(RECOVERY_LIMIT, "all keys are counted together again", || async {
        let mut all = true;
        for replica in &fleet.replicas {
            let state = replica.metric("gene_registry_limit_policy{state=\"shared\"}").await;
            assert_eq!(replica.get("/genes", Some(&busy)).await.status, 200);
            all &= state == Some(1.0);
        }
        all
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_requests_finds_the_new_primary() {
    need_own_servers!();
    let redis = RedisCluster::start().await;
    let fleet = fleet(&redis).await;
    let (key, slot) = key_with_slot(&redis, &fleet, 1_000_000).await;
    let replica = &fleet.replicas[0];
    let writes = async || replica.ops("/readyz").await.json()["redis_write"].clone();
    let lost = redis.primary_of(slot, 0).await;
    redis.nodes[lost].kill().await;
    eventually(RECOVERY_LIMIT, "the fail-over is noticed", async || {
        assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
        writes().await == "down"
    })
    .await;
    redis.taken_over(slot, lost).await;
    eventually(RECOVERY_LIMIT, "all slots have a node again", async || writes().await == "up")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counting_is_exact_while_a_slot_moves() {
    need_own_servers!();
    let redis = RedisCluster::start().await;
    let fleet = fleet(&redis).await;
    let busy = fleet.database.new_key(1_000_000).await;
    for _ in 0..3 {
        let traffic = Traffic::start(&fleet, &busy, "/arena/insights?domain=search");
        let begun = tokio::time::Instant::now();
        let (passed, refused) = admitted_over_moves(&redis, &fleet, 200).await;
        let took = begun.elapsed();
        let traffic = traffic.stop().await;
        assert!(traffic.iter().all(|response| response.status == 200));
        // Past its end, the key has begun another window, so the test starts over with another key.
        if took < WINDOW {
            assert_eq!(passed, 200, "{refused} were refused");
            return;
        }
    }
    panic!("three times more than a window: this machine is too slow to say anything");
}

/// The number of requests with a new key that are admitted while its counter moves three times, and
/// the number that are refused before the last ones.
async fn admitted_over_moves(
    redis: &RedisCluster,
    fleet: &Fleet<'_>,
    limit: u32,
) -> (usize, usize) {
    let (limited, slot) = key_with_slot(redis, fleet, limit).await;
    let steady_load = SteadyLoad::start(fleet, &limited);
    let mut owner = redis.primary_of(slot, 0).await;
    let primaries = redis.primaries(0).await;
    for round in 0..3 {
        let target = primaries[(primaries.iter().position(|at| *at == owner).unwrap() + 1) % 3];
        redis.begin_move(slot, owner, target).await;
        if round == 0 {
            // While the slot moves, keys may be on either node.
            let (other, _) = key_with_slot(redis, fleet, 10).await;
            assert_eq!(admitted(fleet, &other).await, 10);
        }
        redis.end_move(slot, owner, target).await;
        owner = target;
    }
    let (hammered, refused) = steady_load.stop().await;
    (hammered + use_up(fleet, &limited).await, refused)
}

/// How many of 30 requests over all replicas are admitted.
async fn admitted(fleet: &Fleet<'_>, key: &str) -> usize {
    let mut passed = 0;
    for number in 0..30 {
        let response = fleet.replicas[number % 3].get("/genes", Some(key)).await;
        passed += usize::from(response.status == 200);
    }
    passed
}
