//! Sentinels name the primary, and replicas follow when another one is named.

use std::time::Duration;

use gene_registry::config::{Config, Topology};

use super::steady_load::{SteadyLoad, use_up};
use crate::redis_faults::{assert_counted_together, wait_until_available};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis_sentinel::{SERVICE, SentinelRedis};
use crate::support::replica::Fleet;
use crate::support::traffic::Traffic;
use crate::support::wait::eventually;

/// Within this time, a new primary is used.
const RECOVERY_LIMIT: Duration = Duration::from_secs(10);
const LIMIT: usize = 60;

fn watched_by(config: &mut Config, urls: Vec<String>) {
    config.redis.url = None;
    config.redis.topology = Topology::Sentinel;
    config.redis.urls = urls.into_iter().map(Into::into).collect();
    config.redis.sentinel.service = Some(SERVICE.to_owned());
    // Long enough that a loaded machine is not mistaken for a Redis that is unavailable.
    config.redis.timeout_ms = 1_500;
}

async fn fleet(redis: &SentinelRedis, change: impl FnOnce(&mut Config)) -> Fleet<'static> {
    let configure = |config: &mut Config| {
        watched_by(config, redis.urls(""));
        change(config);
    };
    let postgres = PostgresServer::shared().await;
    let fleet = Fleet::start_with(3, postgres, &redis.servers[0], configure).await;
    let key = fleet.database.new_key(1_000_000).await;
    wait_until_available(&fleet, &key).await;
    fleet
}

/// Checks what must hold through a fail-over, which `fail_over` causes.
async fn assert_followed<F: Future<Output = ()>>(
    redis: &SentinelRedis,
    happen: impl FnOnce() -> F,
) {
    let fleet = fleet(redis, |_| {}).await;
    let [busy, limited] =
        [fleet.database.new_key(1_000_000).await, fleet.database.new_key(LIMIT as u32).await];
    let traffic = Traffic::start(&fleet, &busy, "/arena/insights?domain=search");
    let steady_load = SteadyLoad::start(&fleet, &limited);

    happen().await;
    redis.promoted().await;

    // New counters and cache entries.
    let fresh = fleet.database.new_key(1_000_000).await;
    eventually(RECOVERY_LIMIT, "the new primary counts and caches", || async {
        for replica in &fleet.replicas {
            assert_eq!(replica.get("/genes", Some(&fresh)).await.status, 200);
        }
        let limits = redis.servers[1].keys(&format!("{}:limit", fleet.prefix)).await;
        let responses = redis.servers[1].keys(&format!("{}:entry", fleet.prefix)).await;
        !limits.is_empty() && !responses.is_empty()
    })
    .await;
    wait_until_available(&fleet, &fresh).await;

    let (hammered, refused) = steady_load.stop().await;
    let admitted = hammered + use_up(&fleet, &limited).await;
    // The limit, the same again for the data that a fail-over may lose, and each replica's share.
    assert!((LIMIT..=3 * LIMIT).contains(&admitted), "{admitted} admitted, {refused} refused");
    for response in traffic.stop().await {
        assert_eq!(response.status, 200, "{response:?}");
    }
    assert_counted_together(&fleet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_primary_is_replaced_by_its_replica_under_load() {
    need_own_servers!();
    let redis = SentinelRedis::start(None).await;
    assert_followed(&redis, || redis.servers[0].kill()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_hangs_is_replaced_by_its_replica_under_load() {
    need_own_servers!();
    let redis = SentinelRedis::start(None).await;
    assert_followed(&redis, || async { redis.servers[0].pause() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_primary_is_not_used_though_it_still_replies() {
    need_own_servers!();
    let redis = SentinelRedis::start(None).await;
    assert_followed(&redis, || redis.fail_over()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_have_their_own_password_and_an_unavailable_one_delays_nothing() {
    need_own_servers!();
    let redis = SentinelRedis::start(Some("of-the-sentinels")).await;
    let words = ["ACL", "SETUSER", "registry", "on", ">of/the@data", "~*", "+@all"];
    for server in &redis.servers {
        let () = server.command(&words).await;
    }
    let closed = format!("redis://127.0.0.1:{}", crate::support::free_port());
    let fleet = fleet(&redis, |config| {
        config.redis.username = Some("registry".to_owned());
        config.redis.password = Some("of/the@data".into());
        config.redis.urls.insert(0, closed.into());
        config.redis.sentinel.password = Some("of-the-sentinels".into());
    })
    .await;
    assert_counted_together(&fleet).await;
    let clients: String = redis.servers[0].command(&["CLIENT", "LIST"]).await;
    assert!(clients.contains("user=registry"), "{clients}");
}
