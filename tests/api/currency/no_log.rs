//! A registry without a change log, and one that gets a log later.

use std::time::Duration;

use tokio_postgres::Client;

use super::{
    DOMAIN, REPLICAS, always_fresh, assert_change_visible, genes_of, is_hit, paths_of, responses,
    uncached_replica,
};
use crate::support::binary::ReplicaProcess;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, sample};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(10);

async fn edit(client: &Client, id: &str, name: &str) {
    let sql = "update registry.gene set name = $1 where id = $2::text::uuid";
    assert_eq!(client.execute(sql, &[&name, &id]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_log_only_ages_apply_which_is_logged_once() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let database = sample(postgres).await;
    let (client, key) = (database.connect().await, database.new_key(1_000_000).await);
    client.batch_execute("drop view registry_read.change").await.unwrap();
    let (database_url, redis_url) = (database.url_as(READER), redis.url());
    let prefix = RedisServer::new_prefix();
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database_url),
        ("REDIS_URL", &redis_url),
        ("GENE_REGISTRY__REDIS__PREFIX", &prefix),
        ("GENE_REGISTRY__CACHE__PHENOTYPE__FRESH_S", "3"),
        ("GENE_REGISTRY__CACHE__PHENOTYPE__STALE_S", "0"),
        ("GENE_REGISTRY__CACHE__INSIGHTS__FRESH_S", "3600"),
    ])
    .await;
    eventually(TIMEOUT, "the replica is ready", || async {
        process.replica.ops("/readyz").await.status == 200
    })
    .await;
    let id = genes_of(&client, DOMAIN).await.swap_remove(0);
    let [phenotype, insights] =
        [format!("/genes/{id}/phenotype"), format!("/arena/insights?domain={DOMAIN}")];
    let old = process.replica.get(&insights, Some(&key)).await;
    assert_eq!((old.status.as_u16(), is_hit(&old)), (200, false));
    for round in 0..2 {
        let before = process.replica.get(&phenotype, Some(&key)).await;
        assert_eq!(before.status, 200);

        edit(&client, &id, &format!("edited {round}")).await;

        eventually(TIMEOUT, "an expired entry is read again", || async {
            process.replica.get(&phenotype, Some(&key)).await.text.contains("edited")
        })
        .await;
        let kept = process.replica.get(&insights, Some(&key)).await;
        assert!(is_hit(&kept) && kept.text == old.text, "{kept:?}");
        edit(&client, &id, "between").await;
        eventually(TIMEOUT, "it expires again", || async {
            process.replica.get(&phenotype, Some(&key)).await.text.contains("between")
        })
        .await;
    }
    process.wait_for_single_line(&["no change log", "only ages"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_the_log_at_runtime_leaves_only_ages() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(REPLICAS, postgres, redis, |config| {
        always_fresh(config);
        config.cache.search.fresh_s = 3;
        config.cache.search.stale_s = 0;
    })
    .await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let id = genes_of(&client, DOMAIN).await.swap_remove(0);
    let search = format!("/genes?domain={DOMAIN}");
    for replica in &fleet.replicas {
        assert_eq!(replica.get(&search, Some(&key)).await.status, 200);
    }

    client.batch_execute("drop view registry_read.change").await.unwrap();
    edit(&client, &id, "without a log").await;

    for replica in &fleet.replicas {
        eventually(TIMEOUT, "an expired entry is read again", || async {
            let response = replica.get(&search, Some(&key)).await;
            assert_eq!(response.status, 200, "{response:?}");
            response.text.contains("without a log")
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_log_and_its_recovery_are_each_logged_once() {
    let database = sample(PostgresServer::shared().await).await;
    let client = database.connect().await;
    let process = ReplicaProcess::start(&[("DATABASE_URL", &database.url_as(READER))]).await;
    for (change, words) in [
        ("alter view registry_read.change rename column scope to reach", "cannot be read"),
        ("alter view registry_read.change rename column reach to scope", "is read again"),
        ("revoke select on registry_read.change from gene_registry_reader", "cannot be read"),
        ("grant select on registry_read.change to gene_registry_reader", "is read again"),
    ] {
        let before = process.lines_with(&["change log", words]);
        client.batch_execute(change).await.unwrap();
        eventually(TIMEOUT, &format!("{change}: {words}"), || async {
            process.lines_with(&["change log", words]) == before + 1
        })
        .await;
    }
    for (words, lines) in [("cannot be read", 2), ("is read again", 2)] {
        assert_eq!(process.lines_with(&["change log", words]), lines, "{}", process.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn adding_the_log_at_runtime_takes_effect() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(0, postgres, redis, always_fresh).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    client.batch_execute("alter view registry_read.change rename to later").await.unwrap();
    fleet.grow(REPLICAS).await;
    let genes = genes_of(&client, DOMAIN).await;
    let (paths, uncached_replica) = (paths_of(&genes), uncached_replica(&fleet).await);
    for replica in &fleet.replicas {
        eventually(TIMEOUT, "responses are cached without a log", || async {
            responses(replica, &key, &paths).await;
            is_hit(&replica.get(&paths[0], Some(&key)).await)
        })
        .await;
    }

    client.batch_execute("alter view registry_read.later rename to change").await.unwrap();
    // The log reaches back: changes from before a replica noticed it apply too.
    edit(&client, &genes[0], "logged").await;

    assert_change_visible(
        &fleet.replicas,
        &key,
        &paths,
        &uncached_replica,
        "the log has been added",
    )
    .await;
    edit(&client, &genes[0], "logged again").await;
    assert_change_visible(&fleet.replicas, &key, &paths, &uncached_replica, "a further change")
        .await;
}
