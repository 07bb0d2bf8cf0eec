//! While reads are stuck, requests that need none are served; afterwards nothing of them remains.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio_util::task::AbortOnDropHandle;

use super::{
    TIMEOUT, assert_ok, fleet_with_probe, fresh_searches, wait_for_admitted, wait_until_ready,
};
use crate::support::postgres::PostgresServer;
use crate::support::probe::Hold;
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;
use crate::support::traffic::{routes, uncached_path};
use crate::support::wait::eventually;

const STUCK: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn hits_are_served_while_200_misses_are_stuck() {
    let (fleet, probe) = fleet_with_probe(|config| {
        fresh_searches(config);
        config.shed.max_misses = Some(STUCK);
    })
    .await;
    let key = fleet.database.new_key(1_000_000).await;
    let paths = routes(&fleet.database).await;
    for replica in &fleet.replicas {
        for path in &paths {
            assert_ok(&replica.get(path, Some(&key)).await);
        }
    }
    let before = paths.len() * fleet.replicas.len();
    let ended = AtomicUsize::new(0);

    probe.hold(Hold::Everything);
    let misses = (0..STUCK).map(|n| {
        let (replica, key, ended) = (&fleet.replicas[n % 3], &key, &ended);
        async move {
            let response = replica.get(&uncached_path(), Some(key)).await;
            ended.fetch_add(1, Ordering::SeqCst);
            response
        }
    });
    let hits = async {
        wait_for_admitted(&fleet, before + STUCK).await;
        eventually(TIMEOUT, "all are stuck", || async { probe.waiting() == STUCK }).await;
        for n in 0..300 {
            let response = fleet.replicas[n % 3].get(&paths[n / 3 % 3], Some(&key)).await;
            assert_ok(&response);
            assert!(response.header("cache-status").contains("; hit"), "{response:?}");
        }
        for replica in &fleet.replicas {
            assert_eq!(replica.ops("/livez").await.status, 200);
            assert_eq!(replica.ops("/readyz").await.status, 200);
            assert_eq!(replica.get("/openapi.json", None).await.status, 200);
        }
        assert_eq!((probe.waiting(), ended.load(Ordering::SeqCst)), (STUCK, 0));
        probe.hold(Hold::Nothing);
    };
    let (misses, ()) = tokio::join!(join_all(misses), hits);
    misses.iter().for_each(assert_ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_requests_leave_no_statement_and_the_pool_recovers() {
    const POOL: usize = 4;
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(3, postgres, redis, |config| {
        config.redis.timeout_ms = 5_000;
        config.upstream.pool_size = POOL;
        config.upstream.wait_ms = 5_000;
    })
    .await;
    wait_until_ready(&fleet.replicas).await;
    let key = fleet.database.new_key(1_000_000).await;
    for replica in &fleet.replicas {
        assert_ok(&replica.get(&uncached_path(), Some(&key)).await);
    }
    let admin = fleet.database.connect().await;
    let count = |condition| fleet.database.count_connections(&admin, condition);

    let lock = fleet.database.lock_genes().await;
    let client = reqwest::Client::new();
    let leaving: Vec<_> = (0..STUCK)
        .map(|n| {
            let url = format!("{}{}", fleet.replicas[n % 3].base, uncached_path());
            let request = client.get(url).header("X-API-Key", &key);
            AbortOnDropHandle::new(tokio::spawn(request.send()))
        })
        .collect();
    eventually(TIMEOUT, "statements wait", || async { count("state <> 'idle'").await > 0 }).await;
    drop(leaving);
    eventually(TIMEOUT, "no statement remains, though the lock does", || async {
        count("state <> 'idle'").await == 0
    })
    .await;
    lock.batch_execute("rollback").await.unwrap();

    // More concurrent reads than a pool has connections: all of them are free again.
    for replica in &fleet.replicas {
        let requests =
            (0..4 * POOL).map(|_| async { replica.get(&uncached_path(), Some(&key)).await });
        join_all(requests).await.iter().for_each(assert_ok);
    }
    let max = 3 * (POOL as i64 + 1);
    assert!(count("true").await <= max, "no more connections than the pools have");
}
