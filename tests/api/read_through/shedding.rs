//! More misses than may be read at once: hits are served, the excess is refused at once and costs
//! the database nothing, and stale entries bridge the gap.

use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::Instant;

use super::{TIMEOUT, assert_ok, fleet_with_probe, sum, wait_until_ready};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::probe::{Hold, Probe};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica, Response};
use crate::support::traffic::{assert_shed, routes, uncached_path};
use crate::support::wait::eventually;

const MISSES: usize = 3;
const QUEUE: usize = 4;
const ADMITTED: usize = MISSES + QUEUE;

fn few_permits(config: &mut gene_registry::config::Config) {
    config.shed.max_misses = Some(MISSES);
    config.shed.queue = QUEUE;
}

/// How many reads run or wait, by the replica's own gauge.
async fn misses(replica: &Replica, state: &str) -> usize {
    let series = format!("gene_registry_misses{{state=\"{state}\"}}");
    replica.metric(&series).await.unwrap_or(0.0) as usize
}

/// Waits until all permits and the queue of a replica are in use.
async fn saturated(replica: &Replica) {
    eventually(TIMEOUT, "all permits are in use", || async {
        misses(replica, "reading").await == MISSES && misses(replica, "queued").await == QUEUE
    })
    .await;
}

/// Runs `meanwhile` while held requests use all permits of a replica; releases them afterwards.
async fn while_saturated(
    probe: &Probe,
    replica: &Replica,
    key: &str,
    meanwhile: impl Future<Output = ()>,
) {
    probe.hold(Hold::Everything);
    let held =
        join_all((0..ADMITTED).map(|_| async { replica.get(&uncached_path(), Some(key)).await }));
    let (held, ()) = join(held, async {
        saturated(replica).await;
        meanwhile.await;
        probe.hold(Hold::Nothing);
    })
    .await;
    held.iter().for_each(assert_ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_beyond_the_bounds_are_shed_at_once_and_hits_are_served() {
    let (fleet, probe) = fleet_with_probe(few_permits).await;
    let key = fleet.database.new_key(1_000_000).await;
    let (replica, paths) = (&fleet.replicas[0], routes(&fleet.database).await);
    for path in &paths {
        assert_ok(&replica.get(path, Some(&key)).await);
    }
    let elsewhere = uncached_path();
    assert_ok(&fleet.replicas[1].get(&elsewhere, Some(&key)).await);
    RedisServer::shared().await.published(&fleet.prefix).await;
    let before = probe.reads();

    while_saturated(&probe, replica, &key, async {
        let begun = Instant::now();
        // Four times the admitted number, including the held ones.
        let more =
            (0..3 * ADMITTED).map(|_| async { replica.get(&uncached_path(), Some(&key)).await });
        join_all(more).await.iter().for_each(assert_shed);
        assert!(begun.elapsed() < Duration::from_secs(30), "at once: they would wait for longer");
        for path in paths.iter().cycle().take(60) {
            let hit = replica.get(path, Some(&key)).await;
            assert_ok(&hit);
            assert!(hit.header("cache-status").contains("; hit"), "{hit:?}");
        }
        let shared = replica.get(&elsewhere, Some(&key)).await;
        assert_ok(&shared);
        assert!(shared.header("cache-status").contains("detail=shared"), "{shared:?}");
        assert_eq!(probe.reads() - before, MISSES, "no further read reached the database");
    })
    .await;

    let shed = replica.metric(r#"gene_registry_shed_total{what="miss"}"#).await;
    assert_eq!(shed, Some(3.0 * ADMITTED as f64));
    assert_eq!((misses(replica, "reading").await, misses(replica, "queued").await), (0, 0));
    let refused = sum(&fleet.replicas, r#"gene_registry_loads_total{result="failed"}"#).await;
    assert_eq!(refused, 0, "a shed request is no failed load");
    assert_ok(&replica.get(&uncached_path(), Some(&key)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_share_a_read_use_one_permit() {
    let (fleet, probe) = fleet_with_probe(few_permits).await;
    let key = fleet.database.new_key(1_000_000).await;
    let replica = &fleet.replicas[0];

    probe.hold(Hold::Everything);
    let path = uncached_path();
    let same = join_all((0..10 * ADMITTED).map(|_| replica.get(&path, Some(&key))));
    let (same, others) = join(same, async {
        eventually(TIMEOUT, "the entry is read", || async { probe.waiting() == 1 }).await;
        let others =
            (1..ADMITTED).map(|_| async { replica.get(&uncached_path(), Some(&key)).await });
        let (others, ()) = join(join_all(others), async {
            saturated(replica).await;
            probe.hold(Hold::Nothing);
        })
        .await;
        others
    })
    .await;

    same.iter().chain(&others).for_each(assert_ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_with_capacity_reads_what_another_has_shed() {
    let (fleet, probe) = fleet_with_probe(few_permits).await;
    let key = fleet.database.new_key(1_000_000).await;
    let (full, free) = (&fleet.replicas[0], &fleet.replicas[1]);
    while_saturated(&probe, full, &key, async {
        let path = uncached_path();
        assert_shed(&full.get(&path, Some(&key)).await);
        let read = free.get(&path, Some(&key));
        let (read, ()) = join(read, async {
            let its_own = || async { probe.waiting() == MISSES + 1 };
            eventually(TIMEOUT, "no lease prevents the read", its_own).await;
            probe.hold(Hold::Nothing);
        })
        .await;
        assert_ok(&read);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_entry_is_served_instead_of_503_unless_it_is_known_to_be_outdated() {
    let (fleet, probe) = fleet_with_probe(|config| {
        few_permits(config);
        // The longest wait for a permit to read an outdated entry.
        config.upstream.deadline_ms = 1_000;
    })
    .await;
    let key = fleet.database.new_key(1_000_000).await;
    let (replica, [_, phenotype, insights]) = (&fleet.replicas[0], routes(&fleet.database).await);
    let old = |response: &Response| response.header("age").parse::<u64>().unwrap() >= 4_000;
    probe.age_by(4_000);
    for path in [&phenotype, &insights] {
        assert_ok(&replica.get(path, Some(&key)).await);
    }
    probe.age_by(0);
    let gene = phenotype.split('/').nth(2).unwrap();
    let change = format!("update registry.gene set name = name || '!' where id = '{gene}'");

    while_saturated(&probe, replica, &key, async {
        let older = replica.get(&phenotype, Some(&key)).await;
        assert_ok(&older);
        assert!(old(&older), "{older:?}");
        assert_eq!(older.header("cache-status"), "gene-registry; fwd=stale; fwd-status=503");
        assert_eq!(older.header("cache-control"), "private, max-age=0");
        fleet.database.connect().await.batch_execute(&change).await.unwrap();
        eventually(TIMEOUT, "an outdated entry is no longer served", || async {
            let response = replica.get(&phenotype, Some(&key)).await;
            if response.status == 200 {
                return false;
            }
            assert_shed(&response);
            true
        })
        .await;
    })
    .await;

    let newer = replica.get(&phenotype, Some(&key)).await;
    assert_ok(&newer);
    assert!(!old(&newer), "{newer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshes_are_shed_before_reads_that_requests_wait_for() {
    let (fleet, probe) = fleet_with_probe(few_permits).await;
    let key = fleet.database.new_key(1_000_000).await;
    let replica = &fleet.replicas[0];
    // Stale whatever the jitter, and not too old to be served: 30 s fresh, 60 s at most.
    probe.age_by(40);
    let stale: Vec<_> = (0..10).map(|_| uncached_path()).collect();
    for path in &stale {
        assert_ok(&replica.get(path, Some(&key)).await);
    }
    probe.age_by(0);
    let shed = async |what| {
        let series = format!("gene_registry_shed_total{{what=\"{what}\"}}");
        replica.metric(&series).await.unwrap_or(0.0)
    };

    probe.hold(Hold::Everything);
    for path in &stale {
        assert_ok(&replica.get(path, Some(&key)).await);
    }
    let rest = stale.len() - MISSES / 2;
    eventually(TIMEOUT, "most refreshes are shed", || async {
        shed("refresh").await >= rest as f64
    })
    .await;
    assert_eq!(probe.waiting(), MISSES / 2, "some refreshes run");
    let awaited =
        (MISSES / 2..MISSES).map(|_| async { replica.get(&uncached_path(), Some(&key)).await });
    let (awaited, ()) = join(join_all(awaited), async {
        eventually(TIMEOUT, "a waiting request is read", || async { probe.waiting() == MISSES })
            .await;
        probe.hold(Hold::Nothing);
    })
    .await;
    awaited.iter().for_each(assert_ok);
    assert_eq!(shed("miss").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_misses_stay_within_the_bound_and_keys_are_still_looked_up() {
    need_own_servers!();
    const POOL: usize = 8;
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let redis = RedisServer::shared().await;
    let fleet = Fleet::start_with(1, &postgres, redis, |config| {
        config.upstream.pool_size = POOL;
        config.upstream.query_ms = 1_000;
        config.upstream.deadline_ms = 2_000;
        config.shed.queue = 8;
        config.shed.wait_ms = 300;
    })
    .await;
    wait_until_ready(&fleet.replicas).await;
    let (replica, bound) = (&fleet.replicas[0], POOL - 1);
    let key = fleet.database.new_key(1_000_000).await;
    let paths = routes(&fleet.database).await;
    for path in &paths {
        assert_ok(&replica.get(path, Some(&key)).await);
    }
    let admin = fleet.database.connect().await;
    let is_reading = "state <> 'idle' and wait_event_type = 'Lock'";
    let reading = || fleet.database.count_connections(&admin, is_reading);

    let lock = fleet.database.lock_genes().await;
    let burst = join_all(
        (0..4 * (bound + 8)).map(|_| async { replica.get(&uncached_path(), Some(&key)).await }),
    );
    tokio::pin!(burst);
    let mut max = 0;
    let responses = loop {
        tokio::select! {
            responses = &mut burst => break responses,
            now = reading() => max = max.max(now),
        }
        for path in &paths {
            assert_ok(&replica.get(path, Some(&key)).await);
        }
        let start_replica = fleet.database.new_key(1_000_000).await;
        assert_ok(&replica.get(&paths[0], Some(&start_replica)).await);
    };
    assert!((1..=bound as i64).contains(&max), "{max} at once");
    let shed: Vec<_> = responses.iter().filter(|response| response.status == 503).collect();
    shed.iter().for_each(|response| assert_shed(response));
    assert!(shed.len() >= 3 * (bound + 8), "{} of {}", shed.len(), responses.len());
    for response in responses.iter().filter(|response| response.status != 503) {
        response.assert_refused(502, "DB_ERROR");
    }

    lock.batch_execute("rollback").await.unwrap();
    eventually(Duration::from_secs(5), "all permits are free", || async {
        let responses =
            (0..bound).map(|_| async { replica.get(&uncached_path(), Some(&key)).await });
        join_all(responses).await.iter().all(|response| response.status == 200)
    })
    .await;
}
