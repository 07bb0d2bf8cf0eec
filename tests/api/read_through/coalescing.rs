//! Many concurrent requests for the same thing: the whole fleet reads it once.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Version;
use tokio::time::Instant;

use super::{
    Loads, REPLICAS, TIMEOUT, assert_ok, client, count_waits, entry_keys, fleet, fleet_with_probe,
    get, loads, wait_for_admitted,
};
use crate::support::probe::{Hold, Probe};
use crate::support::replica::{Fleet, Response};
use crate::support::traffic::routes;
use crate::support::wait::eventually;

const REQUESTS: usize = 300;

/// How long waiting replicas can learn the outcome of a failed read.
const OUTCOME_TTL: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_identical_cold_requests_on_three_replicas_share_one_load() {
    let fleet = fleet().await;
    let key = fleet.database.new_key(1_000_000).await;
    let paths = routes(&fleet.database).await;
    // Over HTTP/2 a client has one connection to a replica, and a connection at most 32 streams.
    let versions = [Version::HTTP_11, Version::HTTP_2, Version::HTTP_2, Version::HTTP_2];
    let clients = versions.map(client);
    for (round, path) in paths.iter().enumerate() {
        let lock = fleet.database.lock_genes().await;
        let requests = (0..REQUESTS)
            .map(|n| get(&clients[n / 3 % clients.len()], &fleet.replicas[n % 3], path, &key));
        let release = async {
            wait_for_admitted(&fleet, (round + 1) * REQUESTS).await;
            lock.batch_execute("rollback").await.unwrap();
        };
        let (responses, ()) = tokio::join!(join_all(requests), release);

        for response in &responses {
            assert_ok(response);
            assert_eq!(response.text, responses[0].text, "{path}");
        }
        assert_eq!(loads(&fleet.replicas).await, Loads { ok: round + 1, failed: 0 }, "{path}");
        let sources = |status: &str| {
            responses.iter().filter(|response| response.header("cache-status") == status).count()
        };
        assert_eq!(sources("gene-registry; fwd=miss"), 1, "{path}: one began it");
        assert!(sources("gene-registry; fwd=miss; collapsed") > 0, "{path}: others joined it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_load_fails_all_waiting_requests_and_the_next_request_retries() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let key = fleet.database.new_key(1_000_000).await;
    let mut failed = 0;
    for (round, path) in routes(&fleet.database).await.iter().enumerate() {
        probe.hold(Hold::Everything);
        probe.set_failing(true);
        let waited = count_waits(&fleet).await;
        let requests = (0..REQUESTS).map(|n| fleet.replicas[n % 3].get(path, Some(&key)));
        let release = async {
            wait_for_admitted(&fleet, round * (REQUESTS + 3) + REQUESTS).await;
            others_wait(&fleet, &probe, waited).await;
            probe.hold(Hold::Nothing);
            Instant::now()
        };
        let (responses, released) = tokio::join!(join_all(requests), release);

        failed += assert_tried_once(released, loads(&fleet.replicas).await.failed - failed);
        assert_eq!(loads(&fleet.replicas).await, Loads { ok: round, failed }, "{path}");
        responses.iter().for_each(|response| response.assert_refused(502, "DB_ERROR"));
        assert_eq!(entry_keys(&fleet).await.len(), round, "{path}");

        probe.set_failing(false);
        for replica in &fleet.replicas {
            assert_ok(&replica.get(path, Some(&key)).await);
        }
        assert_eq!(loads(&fleet.replicas).await.ok, round + 1, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_a_missing_gene_share_one_read() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let key = fleet.database.new_key(1_000_000).await;
    for (round, path) in
        ["/genes/00000000-0000-0000-0000-000000000001/phenotype", "/arena/insights?domain=none"]
            .iter()
            .enumerate()
    {
        probe.hold(Hold::Everything);
        let (waited, read) = (count_waits(&fleet).await, probe.reads());
        let requests = (0..60).map(|n| fleet.replicas[n % 3].get(path, Some(&key)));
        let release = async {
            wait_for_admitted(&fleet, (round + 1) * 60).await;
            others_wait(&fleet, &probe, waited).await;
            probe.hold(Hold::Nothing);
            Instant::now()
        };
        let (responses, released) = tokio::join!(join_all(requests), release);
        responses.iter().for_each(|response: &Response| response.assert_refused(404, "NOT_FOUND"));
        assert_tried_once(released, probe.reads() - read);
    }
}

/// Waits until one replica's read is held and the two others wait for it.
async fn others_wait(fleet: &Fleet<'_>, probe: &Probe, waited: usize) {
    eventually(TIMEOUT, "one reads, the others wait", || async {
        probe.waiting() == 1 && count_waits(fleet).await == waited + 2
    })
    .await;
}

/// Checks that the fleet tried to read once; returns how often it did. The outcome of a failed read
/// is available for a second, so a replica that a slow machine stops for longer tries again.
#[track_caller]
fn assert_tried_once(released: Instant, tries: usize) -> usize {
    let max = if released.elapsed() < OUTCOME_TTL { 1 } else { REPLICAS as usize };
    assert!((1..=max).contains(&tries), "{tries}, {:?} after the release", released.elapsed());
    tries
}
