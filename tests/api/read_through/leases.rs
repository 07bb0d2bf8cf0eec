//! A lease holder that is not heard of any more delays other replicas only briefly.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    Loads, REPLICAS, TIMEOUT, assert_ok, entry_keys, fleet_with, loads, wait_until_ready,
    waiting_statements,
};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER};
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

/// A replica waits half of it for another one.
const DEADLINE: Duration = Duration::from_secs(16);

/// Longer than that wait: the failing lease holder is still reading.
const STATEMENT_MS: u64 = 12_000;

async fn start(count: u32, postgres: &PostgresServer) -> Fleet<'_> {
    let redis = RedisServer::shared().await;
    let fleet = Fleet::start_with(count, postgres, redis, |config| {
        config.redis.timeout_ms = 5_000;
        config.upstream.query_ms = STATEMENT_MS;
        config.upstream.deadline_ms = DEADLINE.as_millis() as u64;
    })
    .await;
    wait_until_ready(&fleet.replicas).await;
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_dead_lease_holder_ends_at_half_the_deadline() {
    let redis = RedisServer::shared().await;
    let mut fleet = start(1, PostgresServer::shared().await).await;
    let (key, path) = (fleet.database.new_key(1_000_000).await, uncached_path());
    let before = fleet.replicas[0].get(&path, Some(&key)).await;
    // As if the lease holder had died in the middle of its read.
    let [response] = entry_keys(&fleet).await.try_into().unwrap();
    let lease = response.replace(":entry:", ":lease:");
    let () = redis.command(&["SET", &lease, "of-the-dead", "PX", "600000"]).await;
    let () = redis.command(&["DEL", &response]).await;
    fleet.replicas.clear();
    fleet.grow(REPLICAS).await;
    // Otherwise one may not know the history yet, and reads without asking for a lease.
    wait_until_ready(&fleet.replicas).await;

    let (begun, lock) = (Instant::now(), fleet.database.lock_genes().await);
    let requests = (0..30).map(|n| fleet.replicas[n % 3].get(&path, Some(&key)));
    // A replica that begins later would find what an earlier one has published.
    let all_read = async {
        let what = "each replica reads";
        eventually(TIMEOUT, what, || async {
            waiting_statements(&fleet).await == i64::from(REPLICAS)
        })
        .await;
        lock.batch_execute("rollback").await.unwrap();
    };
    let (responses, ()) = tokio::join!(join_all(requests), all_read);
    for response in responses {
        assert_ok(&response);
        assert_eq!(response.text, before.text);
    }

    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    let each = Loads { ok: REPLICAS as usize, failed: 0 };
    assert_eq!(loads(&fleet.replicas).await, each, "each replica reads once");
    let holder: String = redis.command(&["GET", &lease]).await;
    assert_eq!(holder, "of-the-dead", "only its holder releases a lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_holder_without_the_database_does_not_delay_others_for_long() {
    need_own_servers!();
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let proxy = FaultProxy::start(postgres.addr()).await;
    let mut fleet = start(0, &postgres).await;
    let direct = fleet.config.upstream.url.clone();
    fleet.config.upstream.url = Some(proxy.url(&fleet.database.url_as(READER)).into());
    fleet.grow(1).await;
    fleet.config.upstream.url = direct;
    fleet.grow(2).await;
    wait_until_ready(&fleet.replicas).await;
    let key = fleet.database.new_key(1_000_000).await;
    for replica in &fleet.replicas {
        assert_ok(&replica.get(&uncached_path(), Some(&key)).await);
    }
    let path = uncached_path();

    proxy.set(Mode::Stall).await;
    let cut_off = fleet.replicas[0].get(&path, Some(&key));
    let others = async {
        let redis = RedisServer::shared().await;
        let leases = format!("{}:lease", fleet.prefix);
        eventually(TIMEOUT, "the replica has the lease", || async {
            !redis.keys(&leases).await.is_empty()
        })
        .await;
        let begun = Instant::now();
        let requests = (0..30).map(|n| fleet.replicas[1 + n % 2].get(&path, Some(&key)));
        join_all(requests).await.iter().for_each(assert_ok);
        assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    };
    let (cut_off, ()) = tokio::join!(cut_off, others);

    cut_off.assert_refused(502, "DB_ERROR");
    let others = loads(&fleet.replicas[1..]).await;
    assert!((3..=4).contains(&others.ok) && others.failed == 0, "{others:?}");
}

/// A failed statement is noticed a little later than its timeout: waiting replicas must still learn
/// of it, and not try in turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_timed_out_statement_is_one_failed_load_for_the_fleet() {
    let fleet = fleet_with(|config| {
        config.redis.timeout_ms = 5_000;
        config.upstream.query_ms = 4_000;
        config.upstream.deadline_ms = 20_000;
    })
    .await;
    let key = fleet.database.new_key(1_000_000).await;
    for replica in &fleet.replicas {
        assert_ok(&replica.get(&uncached_path(), Some(&key)).await);
    }
    let path = uncached_path();

    let lock = fleet.database.lock_genes().await;
    let requests = fleet.replicas.iter().map(|replica| replica.get(&path, Some(&key)));
    for response in join_all(requests).await {
        response.assert_refused(503, "UNAVAILABLE");
    }
    assert_eq!(loads(&fleet.replicas).await, Loads { ok: REPLICAS as usize, failed: 1 });

    lock.batch_execute("rollback").await.unwrap();
    for replica in &fleet.replicas {
        assert_ok(&replica.get(&path, Some(&key)).await);
    }
}
