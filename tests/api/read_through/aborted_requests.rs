//! Clients that disconnect do not cancel reads that others wait for.

use futures_util::future::join_all;
use reqwest::Version;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Loads, TIMEOUT, assert_ok, client, fleet_with, fresh_searches, get, loads, long_timeouts,
    wait_for_admitted, waiting_statements,
};
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

const ABORTED: usize = 500;

/// Over HTTP/2 a client has one connection, and a connection at most 32 streams.
const CLIENTS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_is_served_by_the_load_that_500_aborted_requests_started() {
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let fleet = fleet_with(|config| {
            long_timeouts(config);
            fresh_searches(config);
        })
        .await;
        let (key, path) = (fleet.database.new_key(1_000_000).await, uncached_path());
        let (replica, url) = (&fleet.replicas[0], format!("{}{path}", fleet.replicas[0].base));
        let clients: Vec<_> = (0..CLIENTS).map(|_| client(version)).collect();
        let lock = fleet.database.lock_genes().await;
        let leaving = (0..ABORTED).map(|n| {
            let request = clients[n % CLIENTS].get(&url).header("X-API-Key", &key);
            AbortOnDropHandle::new(tokio::spawn(request.send()))
        });
        let leaving: Vec<_> = leaving.collect();
        wait_for_admitted(&fleet, ABORTED).await;
        let own = client(version);
        let waiting = get(&own, replica, &path, &key);
        let meanwhile = async {
            wait_for_admitted(&fleet, ABORTED + 1).await;
            drop(leaving);
            drop(clients);
            let is_waiting = || async { waiting_statements(&fleet).await == 1 };
            eventually(TIMEOUT, "one statement waits", is_waiting).await;
            lock.batch_execute("rollback").await.unwrap();
        };

        let (response, ()) = tokio::join!(waiting, meanwhile);

        assert_ok(&response);
        assert_eq!(response.header("cache-status"), "gene-registry; fwd=miss; collapsed");
        assert_eq!(loads(&fleet.replicas).await, Loads { ok: 1, failed: 0 }, "{version:?}");
        // The result is cached although those who requested it are gone.
        let others = fleet.replicas.iter().map(|replica| replica.get(&path, Some(&key)));
        for response in join_all(others).await {
            assert!(response.header("cache-status").contains("hit"), "{response:?}");
        }
    }
}
