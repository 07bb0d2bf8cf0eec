//! Very many changes in one commit: polls stay cheap, and changes of genes concern no key.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::{DOMAIN, VISIBLE_WITHIN, always_fresh, genes_of, is_hit};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica, migrated};
use crate::support::wait::{eventually, visible_within};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Open transactions, all of them with a number.
const WRITERS: usize = 150;

const GOOD_POLLS: &str = "gene_registry_change_log_polls_total{result=\"ok\"}";
const LOOKUPS: &str = "gene_registry_key_lookups_total{result=\"ok\"}";

/// Renames a gene without its row in the log, and adds `scopes` (SQL) to the log, in one
/// transaction.
async fn rename_with(client: &Client, gene: &str, name: &str, scopes: &str) {
    let sql = format!(
        "begin; set local session_replication_role = replica;
         update registry.gene set name = '{name}' where id = '{gene}';
         insert into registry.change (scope) {scopes};
         commit"
    );
    client.batch_execute(&sql).await.unwrap();
}

async fn assert_name_visible(replica: &Replica, key: &str, gene: &str, name: &str) {
    let committed = Instant::now();
    let path = format!("/genes/{gene}/phenotype");
    visible_within(committed, VISIBLE_WITHIN, "the new name", || async {
        let found = replica.get(&path, Some(key)).await;
        assert_eq!(found.status, 200, "{found:?}");
        if found.json()["name"] == name { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_succeed_with_many_changes_and_many_open_transactions() {
    need_own_servers!();
    // As long as the numbers of an old server are.
    let options =
        PostgresOptions { max_connections: 300, epoch: 1_000, ..PostgresOptions::default() };
    let postgres = PostgresServer::start(options).await;
    let fleet = Fleet::start_with(1, &postgres, RedisServer::shared().await, always_fresh).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let (gene, replica) = (genes_of(&client, DOMAIN).await.swap_remove(0), &fleet.replicas[0]);
    let writers = join_all((0..WRITERS).map(|_| async {
        let writer = fleet.database.connect().await;
        writer.batch_execute("begin; select pg_current_xact_id()").await.unwrap();
        writer
    }))
    .await;
    assert_name_visible_after_rename(&client, replica, &key, &gene, "before").await;

    let many = format!(
        "select 'gene:{gene}' union all
         select 'gene:' || gen_random_uuid() from generate_series(1, 60000)"
    );
    rename_with(&client, &gene, "one of many", &many).await;

    let before = replica.metric(GOOD_POLLS).await.unwrap();
    eventually(TIMEOUT, "polls succeed while the writers are open", || async {
        replica.metric(GOOD_POLLS).await.unwrap() >= before + 3.0
    })
    .await;
    assert_name_visible(replica, &key, &gene, "one of many").await;
    assert_name_visible_after_rename(&client, replica, &key, &gene, "after").await;
    assert_eq!(writers.len(), WRITERS);
}

async fn assert_name_visible_after_rename(
    client: &Client,
    replica: &Replica,
    key: &str,
    gene: &str,
    name: &str,
) {
    let sql = "update registry.gene set name = $1 where id = $2::text::uuid";
    client.execute(sql, &[&name, &gene]).await.unwrap();
    assert_name_visible(replica, key, gene, name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_all_genes_concerns_no_key_and_one_of_all_keys_no_gene() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(1, postgres, redis, always_fresh).await;
    let (client, replica) = (fleet.database.connect().await, &fleet.replicas[0]);
    let gene = genes_of(&client, DOMAIN).await.swap_remove(0);
    let path = format!("/genes/{gene}/phenotype");
    let mut keys = Vec::new();
    for _ in 0..10 {
        keys.push(fleet.database.new_key(1_000_000).await);
        assert_eq!(replica.get(&path, Some(&keys[0])).await.status, 200);
    }
    for key in &keys {
        assert_eq!(replica.get(&path, Some(key)).await.status, 200);
    }
    // A poll after this has seen that the keys are new.
    rename_with(&client, &gene, "the marker", &format!("select 'gene:{gene}'")).await;
    assert_name_visible(replica, &keys[0], &gene, "the marker").await;
    for key in &keys {
        assert_eq!(replica.get(&path, Some(key)).await.status, 200);
    }
    let before = replica.metric(LOOKUPS).await.unwrap();

    for name in ["all new", "all new again"] {
        rename_with(&client, &gene, name, "select 'genes'").await;
        assert_name_visible(replica, &keys[0], &gene, name).await;
        for key in &keys {
            assert_eq!(replica.get(&path, Some(key)).await.status, 200);
        }
    }
    assert_eq!(replica.metric(LOOKUPS).await.unwrap(), before);

    let sql = "insert into registry.change (scope) values ('keys')";
    client.batch_execute(sql).await.unwrap();
    eventually(TIMEOUT, "the keys are looked up again", || async {
        for key in &keys {
            let response = replica.get(&path, Some(key)).await;
            assert_eq!(response.status, 200, "{response:?}");
            assert!(is_hit(&response), "{response:?}");
        }
        replica.metric(LOOKUPS).await.unwrap() >= before + keys.len() as f64
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_over_more_than_a_thousand_rows_is_logged_by_one_word() {
    const GENES: &str = "insert into registry.gene (domain, fidelity, owner_id, name)
        select 'x', 'Native', (select min(id) from registry.owner), 'n'
        from generate_series(1, 1001)";
    const KEYS: &str = "insert into registry.api_key (key_hash, prefix, owner, name)
        select sha256(n::text::bytea), 'gr_' || n, 'p', 'k' from generate_series(1, 1001) n";
    let database = migrated(PostgresServer::shared().await).await;
    let client = database.connect().await;
    client.batch_execute("insert into registry.owner (handle) values ('o')").await.unwrap();
    for (sql, word) in [
        (GENES, "genes"),
        ("update registry.gene set name = 'm'", "genes"),
        ("update registry.owner set handle = 'p'", "genes"),
        ("delete from registry.gene", "genes"),
        (KEYS, "keys"),
        ("update registry.api_key set revoked_at = now()", "keys"),
        ("delete from registry.api_key", "keys"),
        ("truncate registry.api_key cascade", "all"),
    ] {
        client.batch_execute("delete from registry.change").await.unwrap();
        client.batch_execute(sql).await.unwrap();
        let rows = client.query("select scope from registry.change", &[]).await.unwrap();
        let scopes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(scopes, [word], "{sql}");
    }
}
