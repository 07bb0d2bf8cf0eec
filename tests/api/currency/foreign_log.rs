//! Rows of the change log with the transaction numbers of another cluster: from a restored dump,
//! or from a logical replica.

use std::process::Command;
use std::time::Duration;

use super::{
    DOMAIN, REPLICAS, always_fresh, assert_change_visible, genes_of, is_hit, paths_of, responses,
    uncached_replica, wait_until_cached,
};
use crate::support::binary::ReplicaProcess;
use crate::support::database::Database;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer, postgres_program};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, sample};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(15);

/// Copies a database into an empty one of another server, as operators restore a dump.
fn dump_and_restore(from: &Database<'_>, to: &Database<'_>) {
    let [dump, restore] = ["pg_dump", "psql"].map(postgres_program);
    let script = r#""$1" "$2" | "$3" --quiet --set=ON_ERROR_STOP=1 --output=/dev/null "$4""#;
    let output = Command::new("sh")
        .args(["-c", script, "restore"])
        .args([dump.into_os_string(), from.url().into()])
        .args([restore.into_os_string(), to.url().into()])
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_before_a_dump_is_cached_after_its_restoration() {
    need_own_servers!();
    let old = PostgresServer::start(PostgresOptions { epoch: 1, ..Default::default() }).await;
    let new = PostgresServer::start(PostgresOptions::default()).await;
    let mut fleet = Fleet::start_with(0, &new, RedisServer::shared().await, always_fresh).await;
    let source = sample(&old).await;
    let key = source.new_key(1_000_000).await;
    let sql = "update registry.gene set description = 'changed before the dump'";
    source.connect().await.batch_execute(sql).await.unwrap();
    let restored = new.create_database().await;
    dump_and_restore(&source, &restored);
    let client = restored.connect().await;
    let sql = "select min(changed_in) > pg_snapshot_xmax(pg_current_snapshot())
        from registry_read.change";
    assert!(client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0));
    fleet.config.upstream.url = Some(restored.url_as(READER).into());
    fleet.database = restored;
    fleet.grow(REPLICAS).await;
    let genes = genes_of(&client, DOMAIN).await;
    let (paths, uncached) = (paths_of(&genes), uncached_replica(&fleet).await);

    wait_until_cached(&fleet.replicas, &key, &paths).await;
    for replica in &fleet.replicas {
        eventually(TIMEOUT, "all are cached", || async {
            responses(replica, &key, &paths).await;
            is_hit(&replica.get(&paths[0], Some(&key)).await)
        })
        .await;
    }
    for name in ["changed after it", "and again"] {
        let sql = "update registry.gene set name = $1, description = $1 where id = $2::text::uuid";
        client.execute(sql, &[&name, &genes[0]]).await.unwrap();
        assert_change_visible(&fleet.replicas, &key, &paths, &uncached, name).await;
        wait_until_cached(&fleet.replicas, &key, &paths).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_rows_of_another_cluster_leave_only_ages_which_is_logged_once() {
    need_own_servers!();
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let database = sample(&postgres).await;
    let (client, key) = (database.connect().await, database.new_key(1_000_000).await);
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("GENE_REGISTRY__CACHE__PHENOTYPE__FRESH_S", "3"),
        ("GENE_REGISTRY__CACHE__PHENOTYPE__STALE_S", "0"),
        ("GENE_REGISTRY__CACHE__INSIGHTS__FRESH_S", "3600"),
    ])
    .await;
    let replica = &process.replica;
    eventually(TIMEOUT, "the replica is ready", || async {
        replica.ops("/readyz").await.status == 200
    })
    .await;
    let gene = genes_of(&client, DOMAIN).await.swap_remove(0);
    let [phenotype, insights] =
        [format!("/genes/{gene}/phenotype"), format!("/arena/insights?domain={DOMAIN}")];
    assert_eq!(replica.get(&phenotype, Some(&key)).await.status, 200);

    // As a subscription to another cluster would apply it.
    let foreign_row = async |scope: String| {
        let sql = "insert into registry.change (scope, changed_in)
            values ($1, (pg_current_xact_id()::text::bigint + 5000000)::text::xid8)";
        client.execute(sql, &[&scope]).await.unwrap();
    };
    foreign_row(format!("gene:{gene}")).await;
    process.wait_for_single_line(&["WARN", "change log"]).await;

    let old = replica.get(&insights, Some(&key)).await;
    assert_eq!(old.status, 200, "{old:?}");
    for name in ["first", "second"] {
        eventually(TIMEOUT, "the changed gene is cached", || async {
            is_hit(&replica.get(&phenotype, Some(&key)).await)
        })
        .await;

        let sql = "update registry.gene set name = $1 where id = $2::text::uuid";
        client.execute(sql, &[&name, &gene]).await.unwrap();
        foreign_row(format!("domain:{DOMAIN}")).await;

        eventually(TIMEOUT, "an expired entry is read again", || async {
            replica.get(&phenotype, Some(&key)).await.json()["name"] == name
        })
        .await;
        // Its age is what counts.
        let kept = replica.get(&insights, Some(&key)).await;
        assert!(is_hit(&kept) && kept.text == old.text, "{kept:?}");
    }
    process.wait_for_single_line(&["WARN", "change log"]).await;
}
