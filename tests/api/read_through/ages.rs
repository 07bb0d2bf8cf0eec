//! Ages: fresh, then stale and refreshed in the background, then served only while the database
//! fails.

use gene_registry::config::Config;

use super::{Loads, REPLICAS, TIMEOUT, assert_ok, fleet_with_probe, loads, number, sum};
use crate::support::probe::Hold;
use crate::support::replica::Response;
use crate::support::traffic::{routes, uncached_path};
use crate::support::wait::eventually;

/// The bounds, in seconds, of how long an entry is kept for a failing database.
const MIN_KEPT_S: i64 = 19 * 3600;
const MAX_KEPT_S: i64 = 24 * 3600 + 60;

/// The default ages: 30 s fresh, 30 s stale, 24 h if the database fails; jitter shortens by a fifth
/// at most.
fn defaults(_: &mut Config) {}

fn ttl(response: &Response) -> i64 {
    number(response.header("cache-status"), "ttl")
}

fn age(response: &Response) -> i64 {
    response.header("age").parse().unwrap()
}

fn max_age(response: &Response) -> i64 {
    number(response.header("cache-control"), "max-age")
}

/// Age, ttl and max-age of a cache hit, from one response.
#[track_caller]
fn assert_consistent(response: &Response) {
    let (age, ttl, max_age) = (age(response), ttl(response), max_age(response));
    let expected = if ttl > 0 { age + ttl.min(30) } else { 0 };
    assert_eq!(max_age, expected, "{response:?}");
    assert!(response.header("cache-control").starts_with("private, max-age="), "{response:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn age_ttl_and_max_age_are_consistent_at_every_age() {
    let (fleet, probe) = fleet_with_probe(defaults).await;
    let key = fleet.database.new_key(1_000_000).await;
    // An age in seconds, and the bounds of the ttl for a search, which is fresh for 24 to 30 s.
    for (older_by, min, max) in [(0, 3, 30), (10, -7, 20), (20, -17, 10), (40, -31, -10)] {
        let path = uncached_path();
        probe.age_by(older_by);
        let read = fleet.replicas[0].get(&path, Some(&key)).await;
        assert_ok(&read);
        assert_eq!(read.header("cache-status"), "gene-registry; fwd=miss");
        // A loaded machine may take some seconds for this.
        assert!((older_by..older_by + 15).contains(&age(&read)), "{read:?}");
        probe.hold(Hold::Everything);
        for replica in [&fleet.replicas[0], &fleet.replicas[0], &fleet.replicas[1]] {
            let hit = replica.get(&path, Some(&key)).await;
            assert_ok(&hit);
            assert_consistent(&hit);
            assert!(age(&hit) >= age(&read), "{hit:?}");
            assert!((min - 15..=max).contains(&ttl(&hit)), "{hit:?}");
            assert_eq!((&hit.text, hit.header("etag")), (&read.text, read.header("etag")));
        }
        probe.age_by(0);
        probe.hold(Hold::Nothing);
    }
    // Fresh for five minutes, but clients may cache it for only half a minute.
    probe.age_by(100);
    let path = &routes(&fleet.database).await[1];
    for _ in 0..2 {
        let response = fleet.replicas[0].get(path, Some(&key)).await;
        assert_eq!(max_age(&response), age(&response) + 30, "{response:?}");
        assert!(age(&response) >= 100, "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_entry_is_served_at_once_and_refreshed_by_one_replica() {
    // Stale for long, so that a slow machine does not reach the end of it.
    let (fleet, probe) = fleet_with_probe(|config| config.cache.search.stale_s = 3_000).await;
    let (key, path) = (fleet.database.new_key(1_000_000).await, uncached_path());
    probe.age_by(100);
    let first = fleet.replicas[0].get(&path, Some(&key)).await;
    assert_eq!(max_age(&first), 0, "{first:?}");
    assert_eq!(probe.reads(), 1);

    // All requests are served at once while the refresh is held.
    probe.hold(Hold::Everything);
    probe.age_by(0);
    for _ in 0..10 {
        for replica in &fleet.replicas {
            let response = replica.get(&path, Some(&key)).await;
            assert_ok(&response);
            assert!(
                response.header("cache-status").starts_with("gene-registry; hit"),
                "{response:?}"
            );
            assert!(ttl(&response) < 0 && age(&response) >= 100, "{response:?}");
            assert_eq!(max_age(&response), 0, "{response:?}");
            assert_eq!(response.text, first.text);
        }
    }
    eventually(TIMEOUT, "the refresh is running", || async { probe.waiting() == 1 }).await;
    let refreshes = "gene_registry_refreshes_total";
    eventually(TIMEOUT, "each replica has begun a refresh", || async {
        sum(&fleet.replicas, refreshes).await == REPLICAS as usize
    })
    .await;
    assert_eq!((probe.reads(), probe.waiting()), (2, 1), "one refresh in the fleet");

    probe.hold(Hold::Nothing);
    for replica in &fleet.replicas {
        eventually(TIMEOUT, "the new entry is served", || async {
            let response = replica.get(&path, Some(&key)).await;
            assert_ok(&response);
            age(&response) < 100
        })
        .await;
    }
    assert_eq!(sum(&fleet.replicas, refreshes).await, REPLICAS as usize);
    assert_eq!(loads(&fleet.replicas).await, Loads { ok: 2, failed: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_wait_for_a_read_beyond_the_stale_age() {
    let (fleet, probe) = fleet_with_probe(defaults).await;
    let (key, path) = (fleet.database.new_key(1_000_000).await, uncached_path());
    probe.age_by(61);
    assert_ok(&fleet.replicas[0].get(&path, Some(&key)).await);
    probe.age_by(0);
    for (turn, replica) in fleet.replicas.iter().enumerate() {
        let response = replica.get(&path, Some(&key)).await;
        assert!(age(&response) < 61, "{response:?}");
        let begins = if turn == 0 { "gene-registry; fwd=miss" } else { "gene-registry; hit" };
        assert!(response.header("cache-status").starts_with(begins), "{response:?}");
    }
    assert_eq!(probe.reads(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_fails_entries_are_served_up_to_if_error_and_then_502() {
    let (fleet, probe) = fleet_with_probe(defaults).await;
    let key = fleet.database.new_key(1_000_000).await;
    for path in &routes(&fleet.database).await {
        probe.age_by(MIN_KEPT_S);
        let first = fleet.replicas[0].get(path, Some(&key)).await;
        assert_ok(&first);
        probe.set_failing(true);
        for replica in &fleet.replicas {
            let response = replica.get(path, Some(&key)).await;
            assert_ok(&response);
            let status = response.header("cache-status");
            assert_eq!(status, "gene-registry; fwd=stale; fwd-status=502");
            assert_eq!((max_age(&response), &response.text), (0, &first.text));
            assert!(age(&response) >= MIN_KEPT_S, "{response:?}");
        }
        // The database is tried each time: the first request after its return gets a new read.
        probe.set_failing(false);
        probe.age_by(0);
        let response = fleet.replicas[1].get(path, Some(&key)).await;
        assert!(response.header("cache-status").contains("fwd=miss"), "{response:?}");
        assert!(age(&response) < MIN_KEPT_S, "{response:?}");
    }

    let path = uncached_path();
    probe.age_by(MAX_KEPT_S);
    assert_ok(&fleet.replicas[0].get(&path, Some(&key)).await);
    probe.set_failing(true);
    for replica in &fleet.replicas {
        replica.get(&path, Some(&key)).await.assert_refused(502, "DB_ERROR");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_refresh_keeps_the_stale_entry_and_is_not_repeated_for_each_request() {
    let (fleet, probe) = fleet_with_probe(|config| config.cache.search.stale_s = 3_000).await;
    let (key, path) = (fleet.database.new_key(1_000_000).await, uncached_path());
    probe.age_by(100);
    assert_ok(&fleet.replicas[0].get(&path, Some(&key)).await);
    probe.set_failing(true);
    let begun = tokio::time::Instant::now();
    for n in 0..300 {
        let response = fleet.replicas[n % 3].get(&path, Some(&key)).await;
        assert_ok(&response);
        assert!(ttl(&response) < 0, "{response:?}");
    }
    // Once a second for each replica.
    let (failed, seconds) = (probe.reads() - 1, begun.elapsed().as_secs_f64());
    assert!(failed as f64 <= 3.0 * (seconds + 1.0), "{failed} in {seconds} s");
}
