//! Transactions that commit in another order than they began, and replicas that start after a
//! change.

use tokio::time::Instant;

use super::{
    DOMAIN, REPLICAS, always_fresh, assert_change_visible, assert_same, assert_visible, fleet,
    genes_of, paths_of, responses, uncached_replica, wait_until_cached,
};
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;

/// Edits a gene within the transaction of the connection.
async fn edit(client: &tokio_postgres::Client, id: &str, name: &str) {
    let sql = "update registry.gene set name = $1, description = $1 where id = $2::text::uuid";
    assert_eq!(client.execute(sql, &[&name, &id]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_visible_if_transactions_commit_in_another_order_than_they_began() {
    let fleet = fleet(PostgresServer::shared().await, RedisServer::shared().await).await;
    let (first, second) = (fleet.database.connect().await, fleet.database.connect().await);
    let key = fleet.database.new_key(1_000_000).await;
    let genes = genes_of(&first, DOMAIN).await;
    let (paths, uncached_replica) = (paths_of(&genes), uncached_replica(&fleet).await);
    for round in 0..2 {
        for replica in &fleet.replicas {
            responses(replica, &key, &paths).await;
        }

        first.batch_execute("begin").await.unwrap();
        edit(&first, &genes[0], &format!("began first {round}")).await;
        edit(&second, &genes[1], &format!("began second {round}")).await;
        let committed = Instant::now();
        let between = responses(&uncached_replica, &key, &paths).await;
        assert_visible(&fleet.replicas, &key, &paths, &between, committed, "the second").await;
        // Read between the two commits, and cached in the replicas and in Redis.
        wait_until_cached(&fleet.replicas, &key, &paths[..1]).await;
        first.batch_execute("commit").await.unwrap();
        let committed = Instant::now();
        let expected = responses(&uncached_replica, &key, &paths).await;

        assert_ne!(expected, between);
        assert_visible(&fleet.replicas, &key, &paths, &expected, committed, "the first").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_does_not_prevent_caching() {
    let fleet = fleet(PostgresServer::shared().await, RedisServer::shared().await).await;
    let (open, client) = (fleet.database.connect().await, fleet.database.connect().await);
    let key = fleet.database.new_key(1_000_000).await;
    let genes = genes_of(&client, DOMAIN).await;
    let (paths, uncached_replica) = (paths_of(&genes), uncached_replica(&fleet).await);
    open.batch_execute("begin; select pg_current_xact_id()").await.unwrap();
    for replica in &fleet.replicas {
        responses(replica, &key, &paths).await;
    }

    // More changes of one gene than the index keeps individually.
    for number in 0..30 {
        edit(&client, &genes[0], &format!("edit {number}")).await;
    }

    assert_change_visible(&fleet.replicas, &key, &paths, &uncached_replica, "thirty edits").await;
    wait_until_cached(&fleet.replicas, &key, &paths).await;
    open.batch_execute("rollback").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_starts_after_a_change_never_shows_the_state_before_it() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(1, postgres, redis, always_fresh).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let genes = genes_of(&client, DOMAIN).await;
    let (paths, uncached_replica) = (paths_of(&genes), uncached_replica(&fleet).await);
    for (round, none_runs) in [false, true, true].into_iter().enumerate() {
        let before = responses(&fleet.replicas[0], &key, &paths).await;
        redis.published(&fleet.prefix).await;
        let kept = redis.keys(&format!("{}:entry", fleet.prefix)).await;
        assert!(kept.len() > genes.len(), "{kept:?}");
        if none_runs {
            for replica in std::mem::take(&mut fleet.replicas) {
                replica.shutdown().await;
            }
        }

        edit(&client, &genes[0], &format!("edited {round}")).await;
        let id = &genes[1];
        let sql = format!("update registry.gene set published = not published where id = '{id}'");
        client.batch_execute(&sql).await.unwrap();
        let (begins, expected) =
            (fleet.replicas.len(), responses(&uncached_replica, &key, &paths).await);
        assert_ne!(expected, before);
        fleet.grow(REPLICAS).await;

        // From its very first response, not only eventually.
        for replica in &fleet.replicas[begins..] {
            assert_same(&responses(replica, &key, &paths).await, &expected, &paths);
        }
        for replica in &fleet.replicas[begins..] {
            assert_same(&responses(replica, &key, &paths).await, &expected, &paths);
        }
        let first = fleet.replicas.len() - 1;
        fleet.replicas.swap(0, first);
    }
}
