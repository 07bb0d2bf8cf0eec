//! A gene that a replica has told somebody is gone is not shown by it again, however it came to
//! know.

use std::time::Duration;

use futures_util::future::join_all;

use super::{DOMAIN, REPLICAS, genes_of, never_old};
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER};
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_heard_from_another_that_a_gene_is_gone_do_not_show_it_again() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let proxy = FaultProxy::start(postgres.addr()).await;
    let mut fleet = Fleet::start_with(0, postgres, redis, |config| {
        never_old(config);
        // What is remembered to be gone outlives what is remembered to be absent.
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
    eventually(Duration::from_secs(10), "it is gone everywhere", || async {
        let asked = fleet.replicas.iter().map(|replica| replica.get(&path, Some(&key)));
        join_all(asked).await.iter().all(|answer| answer.status == 404)
    })
    .await;
    proxy.set(Mode::Refuse).await;

    for replica in &fleet.replicas {
        eventually(Duration::from_secs(10), "it knows no more than that it is gone", || async {
            let answer = replica.get(&path, Some(&key)).await;
            assert_ne!(answer.status, 200, "{answer:?}");
            answer.status == 502
        })
        .await;
    }
}
