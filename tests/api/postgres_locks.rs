//! Statements that wait for a lock: cached responses continue, and no statement or connection leaks.

use std::time::Duration;

use futures_util::future::join_all;

use crate::postgres_faults::{
    AT_ONCE, TIMEOUT, assert_all_are_refused_in_time, assert_all_served, fleet, own_server,
};
use crate::support::need_own_servers;
use crate::support::traffic::{burst, routes, uncached_path};
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_table_is_502_only_for_requests_that_need_it() {
    need_own_servers!();
    let postgres = own_server().await;
    let fleet = fleet(&postgres).await;
    let key = fleet.database.new_key(1_000_000).await;
    let paths = routes(&fleet.database).await;
    for replica in &fleet.replicas {
        for path in &paths {
            assert_eq!(replica.get(path, Some(&key)).await.status, 200);
        }
    }
    let admin = postgres.admin().await;

    let lock = fleet.database.lock_genes().await;
    let meanwhile = async {
        for _ in 0..10 {
            for replica in &fleet.replicas {
                for path in &paths {
                    assert_eq!(replica.get(path, Some(&key)).await.status, 200);
                }
                assert_eq!(replica.ops("/livez").await.status, 200);
                assert_eq!(replica.ops("/readyz").await.status, 200);
                assert_eq!(replica.get("/openapi.json", None).await.status, 200);
            }
        }
    };
    // If each waited for the lock until its deadline, this would take minutes.
    let meanwhile = tokio::time::timeout(Duration::from_secs(20), meanwhile);
    let (responses, quick) = tokio::join!(burst(&fleet.replicas, &key, 200), meanwhile);
    assert!(quick.is_ok(), "cached responses, probes or the document were slow");
    assert_all_are_refused_in_time(&responses);
    eventually(TIMEOUT, "no statement of ours remains, though the lock does", || async {
        fleet.database.count_connections(&admin, "state <> 'idle'").await == 0
    })
    .await;

    lock.batch_execute("rollback").await.unwrap();
    for _ in 0..3 {
        assert_all_served(&burst(&fleet.replicas, &key, AT_ONCE).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_requests_leave_no_statement_or_connection_in_use() {
    need_own_servers!();
    let postgres = own_server().await;
    let fleet = fleet(&postgres).await;
    let key = fleet.database.new_key(1_000_000).await;
    assert_all_served(&burst(&fleet.replicas, &key, 3).await);
    let admin = postgres.admin().await;

    let lock = fleet.database.lock_genes().await;
    let leaving = (0..200).map(|number| {
        let (replica, key) = (&fleet.replicas[number % 3], &key);
        async move {
            let client_timeout = Duration::from_millis(100);
            tokio::time::timeout(client_timeout, replica.get(&uncached_path(), Some(key))).await
        }
    });
    join_all(leaving).await;
    eventually(TIMEOUT, "no statement of ours outlives its timeout", || async {
        fleet.database.count_connections(&admin, "state <> 'idle'").await == 0
    })
    .await;

    lock.batch_execute("rollback").await.unwrap();
    for _ in 0..3 {
        assert_all_served(&burst(&fleet.replicas, &key, AT_ONCE).await);
    }
}
