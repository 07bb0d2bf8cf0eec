//! Genes that do not exist, until they do.

use std::time::Duration;

use gene_registry::registry::Catalogue;

use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Replica, config, load, migrated};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_404_becomes_a_200_on_every_replica_soon_after_the_gene_appears() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let database = migrated(postgres).await;
    let key = database.new_key(1_000_000).await;
    let (url, prefix) = (redis.url(), RedisServer::new_prefix());
    let mut config = config(&database.url(), Some((&url, &prefix)));
    config.cache.not_found_s = 1;
    let replicas = [Replica::start(&config).await, Replica::start(&config).await];
    let path = "/arena/insights?domain=search";
    for replica in &replicas {
        replica.get(path, Some(&key)).await.assert_refused(404, "NOT_FOUND");
    }

    load(&database.url(), Catalogue::sample().unwrap().genes).await;

    for replica in &replicas {
        eventually(TIMEOUT, "the domain is found", || async {
            replica.get(path, Some(&key)).await.status == 200
        })
        .await;
    }
    redis.published(&prefix).await;
    let kept = redis.keys(&format!("{prefix}:entry")).await;
    assert_eq!(kept.len(), 1, "{kept:?}");
}
