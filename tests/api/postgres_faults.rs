//! Postgres stopped, restarted, cut off: cached responses continue, and everything else is a 502
//! within the deadline.

use std::time::Duration;

use gene_registry::keys::ApiKey;

use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;
use crate::support::traffic::{
    TimedResponse, Traffic, assert_db_error, assert_shed, burst, routes, uncached_path,
};
use crate::support::wait::eventually;

pub(crate) const REPLICAS: u32 = 3;
/// The deadline of a read, with a margin for a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_millis(3_000);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// As many reads as all replicas run at once: none waits for its turn, so none is shed.
pub(crate) const AT_ONCE: usize = 18;

pub(crate) async fn own_server() -> PostgresServer {
    PostgresServer::start(PostgresOptions::default()).await
}

pub(crate) async fn fleet(postgres: &PostgresServer) -> Fleet<'_> {
    fleet_behind(postgres, None).await
}

/// Replicas that reach Postgres through a proxy.
async fn fleet_behind<'a>(postgres: &'a PostgresServer, proxy: Option<&FaultProxy>) -> Fleet<'a> {
    let redis = RedisServer::shared().await;
    let mut fleet = Fleet::start_with(0, postgres, redis, |_| {}).await;
    let config = &mut fleet.config;
    config.rate_limit.replicas = REPLICAS;
    // A loaded machine takes longer to connect.
    config.upstream.pool_size = 8;
    config.upstream.wait_ms = 1_000;
    config.upstream.connect_ms = 1_000;
    config.upstream.query_ms = 600;
    config.upstream.deadline_ms = 2_000;
    config.shed.wait_ms = 500;
    if let Some(proxy) = proxy {
        let url = proxy.url(&fleet.database.url_as(crate::support::replica::READER));
        config.upstream.url = Some(url.into());
    }
    fleet.grow(REPLICAS).await;
    fleet
}

#[track_caller]
fn assert_all_are_db_errors_in_time(responses: &[TimedResponse]) {
    for TimedResponse { response, took } in responses {
        assert_db_error(response);
        assert!(*took < DEADLINE, "{took:?}");
    }
}

/// Checks that all were tried in vain, or were not tried since the database is busy.
#[track_caller]
fn assert_all_are_refused_in_time(responses: &[TimedResponse]) {
    for TimedResponse { response, took } in responses {
        assert!(*took < DEADLINE, "{took:?}");
        if response.status == 503 { assert_shed(response) } else { assert_db_error(response) }
    }
    assert!(responses.iter().any(|timed| timed.response.status == 502), "some are tried");
}

#[track_caller]
pub(crate) fn assert_all_served(responses: &[TimedResponse]) {
    for TimedResponse { response, .. } in responses {
        assert_eq!(response.status, 200, "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_resume_after_an_immediate_restart_of_postgres_under_load() {
    need_own_servers!();
    let postgres = own_server().await;
    let fleet = fleet(&postgres).await;
    let key = fleet.database.new_key(1_000_000).await;
    let cached = "/arena/insights?domain=search";
    assert_all_served(&burst(&fleet.replicas, &key, AT_ONCE).await);
    let before = fleet.replicas[0].get(cached, Some(&key)).await;
    for replica in &fleet.replicas {
        assert_eq!(replica.get(cached, Some(&key)).await.status, 200);
    }
    let traffic = Traffic::start(&fleet, &key, cached);

    postgres.stop_immediate().await;
    let responses = burst(&fleet.replicas, &key, 60).await;
    assert_all_are_db_errors_in_time(&responses);
    postgres.restart().await;
    for replica in &fleet.replicas {
        assert_eq!(replica.get(&uncached_path(), Some(&key)).await.status, 200);
    }

    assert_all_served(&burst(&fleet.replicas, &key, AT_ONCE).await);
    let (mut right, mut failed) = (0, 0);
    for response in traffic.stop().await {
        match response.status.as_u16() {
            200 if response.text == before.text => right += 1,
            200 => assert!(response.json()["data"].is_array(), "{response:?}"),
            _ => {
                assert_db_error(&response);
                failed += 1;
            }
        }
    }
    assert!(right > 0 && failed > 0, "{right} {failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_not_cached_and_the_next_request_succeeds_on_every_replica() {
    need_own_servers!();
    let postgres = own_server().await;
    let fleet = fleet(&postgres).await;
    let key = fleet.database.new_key(1_000_000).await;
    for replica in &fleet.replicas {
        assert_eq!(replica.get(&uncached_path(), Some(&key)).await.status, 200);
    }
    let redis = RedisServer::shared().await;
    let responses = format!("{}:entry", fleet.prefix);
    redis.published(&fleet.prefix).await;
    let kept = redis.keys(&responses).await;
    let paths = routes(&fleet.database).await;

    postgres.stop_immediate().await;
    for replica in &fleet.replicas {
        for path in &paths {
            assert_db_error(&replica.get(path, Some(&key)).await);
        }
    }
    assert_eq!(redis.keys(&responses).await, kept);
    postgres.restart().await;

    for replica in &fleet.replicas {
        for path in &paths {
            let response = replica.get(path, Some(&key)).await;
            assert_eq!(response.status, 200, "{response:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_postgres_known_keys_get_cached_responses_and_unknown_keys_get_502() {
    need_own_servers!();
    let postgres = own_server().await;
    let fleet = fleet(&postgres).await;
    let key = fleet.database.new_key(1_000_000).await;
    let paths = routes(&fleet.database).await;
    let mut before = Vec::new();
    for path in &paths {
        before.push(fleet.replicas[0].get(path, Some(&key)).await);
    }
    for replica in &fleet.replicas {
        assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    }

    postgres.stop_immediate().await;
    let unknown = ApiKey::generate().unwrap();
    for replica in &fleet.replicas {
        for (path, before) in paths.iter().zip(&before) {
            let response = replica.get(path, Some(&key)).await;
            assert_eq!(
                (response.status.as_u16(), &response.text),
                (200, &before.text),
                "{response:?}"
            );
        }
        assert_db_error(&replica.get("/genes", Some(unknown.expose())).await);
        replica.get("/genes", Some("gr_nonsense")).await.assert_refused(401, "UNAUTHORIZED");
        assert_eq!(replica.ops("/livez").await.status, 200);
        assert_eq!(replica.ops("/readyz").await.status, 200);
        assert_eq!(replica.get("/openapi.json", None).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_entries_are_served_while_postgres_is_unavailable() {
    need_own_servers!();
    let postgres = own_server().await;
    let mut fleet = fleet(&postgres).await;
    fleet.config.cache.search.fresh_s = 0;
    fleet.config.cache.search.stale_s = 0;
    fleet.replicas.clear();
    fleet.grow(REPLICAS).await;
    let key = fleet.database.new_key(1_000_000).await;
    let path = uncached_path();
    for replica in &fleet.replicas {
        let response = replica.get(&path, Some(&key)).await;
        assert!(response.header("cache-status").contains("fwd=miss"), "{response:?}");
    }

    postgres.stop_immediate().await;
    for replica in &fleet.replicas {
        let response = replica.get(&path, Some(&key)).await;
        assert_eq!(response.status, 200, "{response:?}");
        assert!(response.header("cache-status").contains("fwd=stale"), "{response:?}");
        assert!(response.header("cache-control").contains("max-age=0"), "{response:?}");
    }
    postgres.restart().await;
    for replica in &fleet.replicas {
        // Requests do not try a database that is known to be unavailable: a poll notices its
        // return.
        eventually(TIMEOUT, "the database is read again", || async {
            replica.get(&path, Some(&key)).await.header("cache-status").contains("fwd=miss")
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn termination_of_idle_backends_fails_no_request() {
    need_own_servers!();
    let postgres = own_server().await;
    let fleet = fleet(&postgres).await;
    let key = fleet.database.new_key(1_000_000).await;
    assert_all_served(&burst(&fleet.replicas, &key, AT_ONCE).await);

    for _ in 0..5 {
        assert!(postgres.terminate_backends(fleet.database.name()).await > 0);
        assert_all_served(&burst(&fleet.replicas, &key, AT_ONCE).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_idle_connections_fail_no_request() {
    need_own_servers!();
    let postgres = own_server().await;
    let proxy = FaultProxy::start(postgres.addr()).await;
    let fleet = fleet_behind(&postgres, Some(&proxy)).await;
    let key = fleet.database.new_key(1_000_000).await;
    assert_all_served(&burst(&fleet.replicas, &key, AT_ONCE).await);

    proxy.silence();
    let responses = burst(&fleet.replicas, &key, 15).await;
    assert_all_served(&responses);
    assert!(responses.iter().all(|response| response.took < DEADLINE), "{responses:?}");
    assert_all_served(&burst(&fleet.replicas, &key, AT_ONCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_network_is_502_within_the_deadline_until_it_recovers() {
    need_own_servers!();
    let postgres = own_server().await;
    let proxy = FaultProxy::start(postgres.addr()).await;
    let fleet = fleet_behind(&postgres, Some(&proxy)).await;
    let key = fleet.database.new_key(1_000_000).await;
    assert_all_served(&burst(&fleet.replicas, &key, AT_ONCE).await);

    for mode in [Mode::Stall, Mode::Refuse] {
        proxy.set(mode).await;
        assert_all_are_refused_in_time(&burst(&fleet.replicas, &key, 90).await);
        proxy.set(Mode::Pass).await;
        eventually(TIMEOUT, "every replica serves again", || async {
            let responses = burst(&fleet.replicas, &key, AT_ONCE).await;
            responses.iter().all(|response| response.response.status == 200)
        })
        .await;
    }
}
