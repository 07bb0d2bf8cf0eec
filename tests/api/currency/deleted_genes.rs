//! A replica that has responded 404 for a gene does not serve it again from an older read, however
//! it learned of the deletion.

use std::time::Duration;

use futures_util::future::join_all;

use super::{DOMAIN, REPLICAS, always_fresh, genes_of};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER};
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_found_by_another_replica_is_not_undone() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let proxy = FaultProxy::start(postgres.addr()).await;
    let mut fleet = Fleet::start_with(0, postgres, redis, |config| {
        always_fresh(config);
        // A tombstone outlives the cached 404.
        config.cache.not_found_s = 1;
    })
    .await;
    fleet.config.upstream.url = Some(proxy.url(&fleet.database.url_as(READER)).into());
    fleet.grow(REPLICAS).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let id = genes_of(&client, DOMAIN).await.swap_remove(0);
    let path = format!("/genes/{id}/phenotype");
    for replica in &fleet.replicas {
        assert_eq!(replica.get(&path, Some(&key)).await.status, 200);
    }

    // Slow enough for one replica to read while the others wait for it.
    proxy.set(Mode::Delay(Duration::from_millis(200))).await;
    let sql = "update registry.gene set published = false where id = $1::text::uuid";
    client.execute(sql, &[&id]).await.unwrap();
    eventually(Duration::from_secs(10), "every replica responds 404", || async {
        let asked = fleet.replicas.iter().map(|replica| replica.get(&path, Some(&key)));
        join_all(asked).await.iter().all(|response| response.status == 404)
    })
    .await;
    proxy.set(Mode::Refuse).await;

    for replica in &fleet.replicas {
        eventually(Duration::from_secs(10), "only the tombstone is left", || async {
            let response = replica.get(&path, Some(&key)).await;
            assert_ne!(response.status, 200, "{response:?}");
            response.status == 502
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_replica_does_not_fail_the_reads_of_others() {
    need_own_servers!();
    // A Redis of its own, since the test monitors all commands.
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::start(&[]).await);
    let monitor = redis.monitor().await;
    let cut_off = FaultProxy::start(postgres.addr()).await;
    let mut fleet = Fleet::start_with(REPLICAS - 1, postgres, &redis, |config| {
        always_fresh(config);
        // A lease is taken also on a busy machine.
        config.redis.timeout_ms = 5_000;
    })
    .await;
    fleet.config.upstream.url = Some(cut_off.url(&fleet.database.url_as(READER)).into());
    (fleet.config.upstream.wait_ms, fleet.config.upstream.connect_ms) = (500, 500);
    (fleet.config.upstream.query_ms, fleet.config.upstream.deadline_ms) = (600, 2_000);
    fleet.grow(1).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let genes = genes_of(&client, DOMAIN).await;
    let paths: Vec<String> =
        genes.iter().take(5).map(|id| format!("/genes/{id}/phenotype")).collect();
    let (sick, healthy) = fleet.replicas.split_last().unwrap();
    assert_eq!(sick.get("/genes", Some(&key)).await.status, 200);

    cut_off.set(Mode::Stall).await;
    eventually(Duration::from_secs(10), "the replica has noticed that it is isolated", || async {
        sick.metric("gene_registry_upstream_in_use").await == Some(0.0)
    })
    .await;
    for path in &paths {
        // This replica takes the lease, and its read fails.
        let lease = format!("{}:lease", fleet.prefix);
        let claimed = monitor.lines_with(&lease).len();
        let in_vain = sick.get(path, Some(&key));
        let right = async {
            eventually(Duration::from_secs(10), "the replica has the lease", || async {
                monitor.lines_with(&lease).len() > claimed
            })
            .await;
            join_all(healthy.iter().map(|replica| replica.get(path, Some(&key)))).await
        };
        let (in_vain, right) = tokio::join!(in_vain, right);
        assert!(matches!(in_vain.status.as_u16(), 200 | 502), "{in_vain:?}");
        for response in right {
            assert_eq!(response.status, 200, "{response:?}");
        }
    }
}
