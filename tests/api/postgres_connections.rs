//! Postgres unavailable at the start, or with fewer connections than the replicas want.

use std::time::Duration;

use crate::postgres_faults::{DEADLINE, TIMEOUT, fleet, own_server};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::traffic::{TimedResponse, assert_db_error, assert_shed, burst, uncached_path};
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_starts_without_postgres_and_becomes_ready_when_it_connects() {
    need_own_servers!();
    let postgres = own_server().await;
    let mut fleet = fleet(&postgres).await;
    fleet.replicas.clear();
    let key = fleet.database.new_key(1_000_000).await;

    postgres.stop_immediate().await;
    fleet.grow(1).await;
    let replica = &fleet.replicas[0];
    assert_eq!(replica.ops("/livez").await.status, 200);
    assert_eq!(replica.ops("/readyz").await.status, 503);
    assert_db_error(&replica.get("/genes", Some(&key)).await);
    postgres.restart().await;

    eventually(TIMEOUT, "the replica is ready", || async {
        replica.ops("/readyz").await.status == 200
    })
    .await;
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_becomes_ready_after_ten_seconds_without_postgres() {
    need_own_servers!();
    let postgres = own_server().await;
    let mut fleet = fleet(&postgres).await;
    fleet.replicas.clear();
    postgres.stop_immediate().await;
    fleet.grow(1).await;
    let replica = &fleet.replicas[0];
    assert_eq!(replica.ops("/readyz").await.status, 503);

    let ready = || async { replica.ops("/readyz").await.status == 200 };
    eventually(Duration::from_secs(20), "the replica is ready", ready).await;

    assert_eq!(replica.ops("/readyz").await.json()["upstream"], "down");
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_connections_than_the_pools_want_are_shared_by_all_replicas() {
    need_own_servers!();
    // Three of them are reserved for the superuser.
    let options = PostgresOptions { max_connections: 8, ..Default::default() };
    let postgres = PostgresServer::start(options).await;
    let fleet = fleet(&postgres).await;
    let key = fleet.database.new_key(1_000_000).await;
    // The first replica takes all available connections.
    postgres.terminate_backends(fleet.database.name()).await;
    burst(&fleet.replicas[..1], &key, 60).await;

    for TimedResponse { response, took } in burst(&fleet.replicas, &key, 200).await {
        assert!(took < DEADLINE, "{took:?}");
        match response.status.as_u16() {
            200 => {}
            503 => assert_shed(&response),
            _ => assert_db_error(&response),
        }
    }
    for replica in &fleet.replicas {
        eventually(Duration::from_secs(30), "every replica gets connections", || async {
            replica.get(&uncached_path(), Some(&key)).await.status == 200
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_shuts_down_in_time_while_postgres_hangs() {
    need_own_servers!();
    let postgres = own_server().await;
    let mut fleet = fleet(&postgres).await;
    let key = fleet.database.new_key(1_000_000).await;
    burst(&fleet.replicas, &key, 30).await;

    postgres.pause();
    let replicas = std::mem::take(&mut fleet.replicas);
    let (base, client) = (replicas[0].base.clone(), reqwest::Client::new());
    let request = client.get(format!("{base}{}", uncached_path())).header("X-API-Key", &key).send();
    let under_way = tokio::spawn(request);
    let ended = tokio::time::timeout(2 * DEADLINE, async {
        for replica in replicas {
            replica.shutdown().await;
        }
    });
    assert!(ended.await.is_ok(), "a replica did not end");
    postgres.resume();

    // Each connection was served, or never accepted.
    if let Ok(response) = under_way.await.unwrap() {
        assert_eq!(response.status(), 502);
    }
}
