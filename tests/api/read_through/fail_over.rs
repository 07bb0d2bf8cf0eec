//! A read that is under way while the database begins another history.

use gene_registry::upstream::Postgres;

use super::{TIMEOUT, assert_ok, long_timeouts, start_replica, wait_until_ready};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::probe::{Hold, Probe};
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_before_a_restart_of_the_primary_is_not_shared_after_it() {
    need_own_servers!();
    let (postgres, redis) =
        (PostgresServer::start(PostgresOptions::default()).await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(0, &postgres, redis, long_timeouts).await;
    let [upstream, other] = [(), ()].map(|()| {
        Probe::new(Postgres::new(&fleet.config.upstream, "install {id}".to_owned()).unwrap())
    });
    for probe in [&upstream, &other] {
        fleet.replicas.push(start_replica(&fleet, probe).await);
    }
    wait_until_ready(&fleet.replicas).await;
    let (key, path) = (fleet.database.new_key(1_000_000).await, uncached_path());
    for replica in &fleet.replicas {
        assert_ok(&replica.get(&uncached_path(), Some(&key)).await);
    }

    upstream.hold(Hold::Results);
    let held = fleet.replicas[0].get(&path, Some(&key));
    let restart = async {
        eventually(TIMEOUT, "it has been read", || async { upstream.waiting() > 0 }).await;
        postgres.restart().await;
        for replica in &fleet.replicas {
            eventually(TIMEOUT, "the other history is known", || async {
                replica.metric("gene_registry_history_switches_total").await == Some(1.0)
            })
            .await;
        }
        upstream.hold(Hold::Nothing);
    };
    let (held, ()) = tokio::join!(held, restart);
    assert_ok(&held);

    let response = fleet.replicas[1].get(&path, Some(&key)).await;
    assert_eq!(response.header("cache-status"), "gene-registry; fwd=miss", "{response:?}");
    assert_eq!(other.reads(), 2);
}
