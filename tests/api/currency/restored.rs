//! A database restored from a backup: reads from the lost future are not served, neither by
//! replicas that were running during the restore nor by those that start after it.

use gene_registry::config::{Config, RedisConfig};
use gene_registry::keys::{ApiKey, insert_key};
use tokio::time::Instant;

use super::{
    DOMAIN, REPLICAS, always_fresh, assert_same, assert_visible, genes_of, paths_of, responses,
};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::proxy::{Cut, FaultProxy};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, Replica, new_key, sample};

/// Enough transactions for the original's timeline to be ahead of the copy's.
pub(crate) const TRANSACTIONS: &str = "do $$ begin
        for n in 1..3000 loop perform pg_current_xact_id(); commit; end loop;
    end $$";

#[tokio::test(flavor = "multi_thread")]
async fn no_read_from_before_a_restore_is_served_after_it() {
    need_own_servers!();
    let (ahead, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let copy = PostgresServer::start(PostgresOptions::default()).await;
    let proxy = FaultProxy::start(ahead.addr()).await;
    let mut fleet = Fleet::start_with(0, ahead, redis, always_fresh).await;
    fleet.config.upstream.url = Some(proxy.url(&fleet.database.url_as(READER)).into());
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let genes = genes_of(&client, DOMAIN).await;
    let paths = paths_of(&genes);
    // The copy has the same name, the same key, an older state and far fewer transactions.
    let restored = sample(&copy).await;
    let restored_client = restored.connect().await;
    let known = key.parse::<ApiKey>().unwrap();
    insert_key(&restored_client, &known, &new_key()).await.unwrap();
    let sql = "update registry.gene set name = 'as it was', description = 'as it was'";
    restored_client.batch_execute(sql).await.unwrap();
    drop(restored_client);
    copy.terminate_backends(restored.name()).await;
    let sql = format!("alter database {} rename to {}", restored.name(), fleet.database.name());
    copy.admin().await.batch_execute(&sql).await.unwrap();
    client.batch_execute(TRANSACTIONS).await.unwrap();
    fleet.grow(REPLICAS).await;
    for replica in &fleet.replicas {
        assert_eq!(responses(replica, &key, &paths).await.len(), paths.len());
    }

    // Another fleet leaves its entries in Redis and is not running during the restore.
    let mut config = fleet.config.clone();
    config.redis.prefix = RedisServer::new_prefix();
    let gone = Replica::start(&config).await;
    responses(&gone, &key, &paths).await;
    gone.shutdown().await;
    config.upstream.url = Some(copy.url(fleet.database.name(), READER).into());
    let alone =
        Config { redis: RedisConfig { url: None, ..config.redis.clone() }, ..config.clone() };
    let expected = responses(&Replica::start(&alone).await, &key, &paths).await;

    proxy.retarget(copy.addr());
    proxy.cut(Cut::Reset).await;
    let restored_at = Instant::now();

    assert_visible(&fleet.replicas, &key, &paths, &expected, restored_at, "the restored copy")
        .await;
    for _ in 0..REPLICAS {
        let replica = Replica::start(&config).await;
        assert_same(&responses(&replica, &key, &paths).await, &expected, &paths);
    }
}
