//! Statements that wait for a lock: cached responses continue, and no statement or connection leaks.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::Client;

use crate::postgres_faults::{AT_ONCE, DEADLINE, TIMEOUT, assert_all_served, fleet, own_server};
use crate::support::need_own_servers;
use crate::support::replica::{Fleet, Response};
use crate::support::traffic::{TimedResponse, assert_shed, burst, routes, uncached_path};
use crate::support::wait::eventually;

/// Between two requests: 200 a second.
const REQUEST_INTERVAL: Duration = Duration::from_millis(5);

/// The database is available, so nothing is a 502.
#[track_caller]
fn assert_all_are_shed_in_time(responses: &[TimedResponse]) {
    for TimedResponse { response, took } in responses {
        assert!(*took < DEADLINE, "{took:?}");
        assert_shed(response);
    }
}

/// No statement of ours remains, though the lock does; once `lock` ends, all requests are served.
async fn assert_nothing_remains(fleet: &Fleet<'_>, lock: &Client, key: &str) {
    let client = fleet.database.connect().await;
    eventually(TIMEOUT, "no statement of ours remains", || async {
        fleet.database.count_connections(&client, "state <> 'idle'").await == 0
    })
    .await;
    lock.batch_execute("rollback").await.unwrap();
    for _ in 0..3 {
        assert_all_served(&burst(&fleet.replicas, key, AT_ONCE).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_table_is_503_only_for_requests_that_need_it() {
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
    assert_all_are_shed_in_time(&responses);
    assert_nothing_remains(&fleet, &lock, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_requests_leave_no_statement_or_connection_in_use() {
    need_own_servers!();
    let postgres = own_server().await;
    let fleet = fleet(&postgres).await;
    let key = fleet.database.new_key(1_000_000).await;
    assert_all_served(&burst(&fleet.replicas, &key, 3).await);
    let lock = fleet.database.lock_genes().await;
    let leaving = (0..200).map(|number| {
        let (replica, key) = (&fleet.replicas[number % 3], &key);
        async move {
            let client_timeout = Duration::from_millis(100);
            tokio::time::timeout(client_timeout, replica.get(&uncached_path(), Some(key))).await
        }
    });
    join_all(leaving).await;
    assert_nothing_remains(&fleet, &lock, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_genes_are_served_without_an_error_while_their_tables_are_locked() {
    need_own_servers!();
    let postgres = own_server().await;
    let fleet = fleet(&postgres).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let sql = "insert into registry.gene (domain, fidelity, owner_id, name)
        select 'locked', 'Native', (select min(id) from registry.owner), 'n'
        from generate_series(1, 400)
        returning id::text";
    let rows = client.query(sql, &[]).await.unwrap();
    let paths: Vec<String> =
        rows.iter().map(|row| format!("/genes/{}/phenotype", row.get::<_, String>(0))).collect();
    for replica in &fleet.replicas {
        for path in &paths {
            assert_eq!(replica.get(path, Some(&key)).await.status, 200);
        }
    }

    for (lock_time, requests) in [(1_200, 600), (4_000, 1_200)] {
        let lock = async {
            let lock = "begin; lock table registry.gene, registry.change in access exclusive mode";
            client.batch_execute(lock).await.unwrap();
            tokio::time::sleep(Duration::from_millis(lock_time)).await;
            client.batch_execute("rollback").await.unwrap();
        };
        let begun = Instant::now();
        let requests = (0..requests).map(|number: usize| {
            let (replica, path) = (&fleet.replicas[number % 3], &paths[number % paths.len()]);
            let key = &key;
            async move {
                sleep_until(begun + REQUEST_INTERVAL * u32::try_from(number).unwrap()).await;
                replica.get(path, Some(key)).await
            }
        });
        let ((), responses) = tokio::join!(lock, join_all(requests));
        let failed: Vec<&Response> =
            responses.iter().filter(|response| response.status != 200).collect();
        assert!(failed.is_empty(), "{lock_time} ms: {}, as {:?}", failed.len(), failed[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uncached_genes_are_503_while_their_table_is_locked_and_the_database_is_in_use() {
    need_own_servers!();
    let postgres = own_server().await;
    let fleet = fleet(&postgres).await;
    let key = fleet.database.new_key(1_000_000).await;
    let [cached, uncached, _] = routes(&fleet.database).await;
    for replica in &fleet.replicas {
        assert_eq!(replica.get(&cached, Some(&key)).await.status, 200);
    }

    let lock = fleet.database.lock_genes().await;
    for _ in 0..3 {
        for replica in &fleet.replicas {
            let begun = Instant::now();
            let response = replica.get(&uncached, Some(&key)).await;
            assert_shed(&response);
            assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
            assert_eq!(replica.ops("/readyz").await.json()["upstream"], "up");
        }
    }
    lock.batch_execute("rollback").await.unwrap();
    for replica in &fleet.replicas {
        assert_eq!(replica.get(&uncached, Some(&key)).await.status, 200);
        let opened = "gene_registry_breaker_openings_total{store=\"postgres\"}";
        assert_eq!(replica.metric(opened).await, Some(0.0));
    }
}
