//! A standby as `upstream.url`, with a transaction that stays open on its primary.

use std::time::Duration;

use tokio::time::Instant;

use super::{TIMEOUT, fleet};
use crate::currency::{DOMAIN, genes_of};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{Fleet, READER, Replica};
use crate::support::standby::primary;
use crate::support::wait::{eventually, visible_within};

const VISIBLE_WITHIN: Duration = Duration::from_secs(2);

/// It changes what no test requests.
const LONG_TRANSACTION: &str = "begin; update registry.gene set downloads = downloads + 1
    where id = (select id from registry.gene where domain = 'code.testing' limit 1)";

/// `count` replicas whose `upstream.url` is the standby.
async fn fleet_over<'a>(
    count: u32,
    primary: &'a PostgresServer,
    standby: &PostgresServer,
) -> Fleet<'a> {
    fleet(count, primary, &[], |config, database| {
        config.upstream.url = Some(standby.url(database.name(), READER).into());
    })
    .await
}

/// Waits until the replica has polled the log twice, so that it knows what has changed so far.
async fn wait_for_polls(replica: &Replica) {
    let polls = async || {
        replica.metric("gene_registry_change_log_polls_total{result=\"ok\"}").await.unwrap()
    };
    let before = polls().await;
    eventually(TIMEOUT, "the log is polled", || async { polls().await >= before + 2.0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_on_the_primary_fails_no_request_and_hides_no_change() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let mut fleet = fleet_over(2, &primary, &standby).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let gene = genes_of(&client, DOMAIN).await.swap_remove(0);
    let paths = ["/genes?limit=50".to_owned(), format!("/genes/{gene}/phenotype")];
    for replica in &fleet.replicas {
        eventually(TIMEOUT, "the standby is read", || async {
            replica.get(&paths[0], Some(&key)).await.status == 200
        })
        .await;
    }

    let open = fleet.database.connect().await;
    open.batch_execute(LONG_TRANSACTION).await.unwrap();
    // A replica that starts meanwhile, too.
    fleet.grow(1).await;
    for (name, limit) in [("the first name", 48), ("the second name", 49)] {
        let sql = "update registry.gene set name = $1 where id = $2::text::uuid";
        client.execute(sql, &[&name, &gene]).await.unwrap();
        let new_key = fleet.database.new_key(1_000_000).await;
        // What the standby has not replayed nobody can show.
        primary.wait_for_replay(&standby).await;
        let replayed = Instant::now();
        for replica in &fleet.replicas {
            for path in &paths {
                visible_within(replayed, VISIBLE_WITHIN, name, || async {
                    let found = replica.get(path, Some(&key)).await;
                    assert_eq!(found.status, 200, "{path}: {found:?}");
                    if found.text.contains(name) { Ok(()) } else { Err(format!("{found:?}")) }
                })
                .await;
            }
        }
        for replica in &fleet.replicas {
            wait_for_polls(replica).await;
            // Neither has been requested before the changes were known.
            let path = format!("/genes?limit={limit}");
            let response = replica.get(&path, Some(&new_key)).await;
            assert_eq!(response.status, 200, "{response:?}");
            assert!(response.text.contains(name), "{response:?}");
            for path in paths.iter().chain([&path]) {
                eventually(TIMEOUT, "it is cached", || async {
                    let found = replica.get(path, Some(&key)).await;
                    assert_eq!(found.status, 200, "{path}: {found:?}");
                    found.header("cache-status").contains("hit")
                })
                .await;
            }
        }
    }
    open.batch_execute("rollback").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn very_many_changes_beside_an_open_transaction_hide_no_change() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let fleet = fleet_over(1, &primary, &standby).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let (gene, replica) = (genes_of(&client, DOMAIN).await.swap_remove(0), &fleet.replicas[0]);
    let path = format!("/genes/{gene}/phenotype");
    let open = fleet.database.connect().await;
    open.batch_execute(LONG_TRANSACTION).await.unwrap();
    // More than a poll lists.
    let many = "insert into registry.change (scope)
        select 'gene:' || gen_random_uuid() from generate_series(1, 5001)";
    client.batch_execute(many).await.unwrap();
    primary.wait_for_replay(&standby).await;
    wait_for_polls(replica).await;
    for name in ["the first name", "the second name"] {
        assert_eq!(replica.get(&path, Some(&key)).await.status, 200);
        let sql = "update registry.gene set name = $1 where id = $2::text::uuid";
        client.execute(sql, &[&name, &gene]).await.unwrap();
        primary.wait_for_replay(&standby).await;
        visible_within(Instant::now(), VISIBLE_WITHIN, name, || async {
            let found = replica.get(&path, Some(&key)).await;
            assert_eq!(found.status, 200, "{found:?}");
            if found.text.contains(name) { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }
    open.batch_execute("rollback").await.unwrap();
}

/// To the standby, a transaction that was open then stays open.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_was_open_when_the_primary_died_fails_no_request() {
    need_own_servers!();
    let first = primary().await;
    let second = first.start_standby().await;
    let fleet = fleet(2, &first, &[], |config, database| {
        let (hosts, name) = ([first.addr(), second.addr()].join(","), database.name());
        let url = format!("postgres://{READER}@{hosts}/{name}?target_session_attrs=any");
        config.upstream.url = Some(url.into());
    })
    .await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let gene = genes_of(&client, DOMAIN).await.swap_remove(0);
    let paths = ["/genes?limit=50".to_owned(), format!("/genes/{gene}/phenotype")];
    for (replica, path) in fleet.replicas.iter().flat_map(|r| paths.iter().map(move |p| (r, p))) {
        assert_eq!(replica.get(path, Some(&key)).await.status, 200);
    }
    let open = fleet.database.connect().await;
    open.batch_execute(LONG_TRANSACTION).await.unwrap();
    let sql = "update registry.gene set name = 'the last name' where id = $1::text::uuid";
    client.execute(sql, &[&gene]).await.unwrap();
    let new_key = fleet.database.new_key(1_000_000).await;
    first.wait_for_replay(&second).await;
    for replica in &fleet.replicas {
        wait_for_polls(replica).await;
    }

    first.kill().await;
    drop(open);
    for (replica, limit) in fleet.replicas.iter().zip(48..) {
        let uncached = format!("/genes?limit={limit}");
        let requests = [(&uncached, &new_key), (&paths[0], &key), (&paths[1], &key)];
        for (path, key) in requests {
            eventually(TIMEOUT, &format!("the standby is read: {path}"), || async {
                let found = replica.get(path, Some(key)).await;
                found.status == 200 && found.text.contains("the last name")
            })
            .await;
        }
        eventually(TIMEOUT, "it is cached", || async {
            let found = replica.get(&uncached, Some(&key)).await;
            assert_eq!(found.status, 200, "{found:?}");
            found.header("cache-status").contains("hit")
        })
        .await;
    }
}
