//! What a read from a standby may show, and when it may be used.

use std::time::Duration;

use gene_registry::registry::GeneSearch;
use gene_registry::upstream::{Postgres, RegistryReader};
use tokio::time::Instant;

use super::{TIMEOUT, fleet};
use crate::currency::{DOMAIN, genes_of};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, sample};
use crate::support::standby::primary;
use crate::support::wait::eventually;
use crate::upstream::database::{TEMPLATE, config};

/// Longer than responses, also those that found nothing, stay fresh.
const SEVERAL_READS: Duration = Duration::from_secs(9);

#[tokio::test(flavor = "multi_thread")]
async fn a_read_tells_that_it_may_show_changes_later_than_the_oldest_running_transaction() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let database = sample(&primary).await;
    let url = |server: &_| PostgresServer::url(server, database.name(), READER);
    let at = |server: &_| Postgres::new(&config(&url(server)), TEMPLATE.to_owned()).unwrap();
    let (running, client) = (database.connect().await, database.connect().await);
    let touch = "update registry.gene set downloads = downloads + 1
        where id = (select min(id::text)::uuid from registry.gene)";
    running.batch_execute(&format!("begin; {touch}")).await.unwrap();
    let renamed = "update registry.gene set name = 'renamed'
        where id <> (select min(id::text)::uuid from registry.gene)";
    client.batch_execute(renamed).await.unwrap();
    primary.wait_for_replay(&standby).await;

    let search = GeneSearch::default();
    let [now, shown] = [at(&primary), at(&standby)].map(async |from| from.search(&search).await);
    let (now, shown) = (now.await.unwrap(), shown.await.unwrap());

    assert_eq!(shown.value, now.value, "it shows the change");
    let (shown, seen) = (shown.seen.shown_transactions, now.seen.transactions());
    assert!(shown >= seen, "it may show {shown} transactions, and shows {seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_read_again_and_again_after_the_primary_died_with_open_transactions() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let fleet = fleet(1, &primary, &[&standby], |config, _| {
        config.cache.not_found_s = 4;
        for ages in [&mut config.cache.search, &mut config.cache.phenotype] {
            (ages.fresh_s, ages.stale_s) = (4, 0);
        }
    })
    .await;
    let (replica, client) = (&fleet.replicas[0], fleet.database.connect().await);
    let key = fleet.database.new_key(1_000_000).await;
    let genes = genes_of(&client, DOMAIN).await;
    let touch = "update registry.gene set downloads = downloads + 1 where id = $1::text::uuid";
    let mut open = Vec::new();
    for gene in &genes[..2] {
        let client = fleet.database.connect().await;
        client.batch_execute("begin").await.unwrap();
        client.execute(touch, &[gene]).await.unwrap();
        open.push(client);
    }
    client.execute(touch, &[&genes[2]]).await.unwrap();
    primary.wait_for_replay(&standby).await;
    primary.kill().await;
    eventually(TIMEOUT, "the replica knows it", || async {
        replica.ops("/readyz").await.json()["primary"] == "down"
    })
    .await;

    // Until its next poll, it may lack the key.
    let known = format!("/genes/{}/phenotype", genes[0]);
    eventually(TIMEOUT, "the standby shows the key", || async {
        replica.get(&known, Some(&key)).await.status == 200
    })
    .await;
    let requests = [
        ("/genes/00000000-0000-4000-8000-000000000000/phenotype", 404),
        (known.as_str(), 200),
        ("/genes?limit=7", 200),
    ];
    let until = Instant::now() + SEVERAL_READS;
    while Instant::now() < until {
        for (path, status) in requests {
            let response = replica.get(path, Some(&key)).await;
            assert_eq!(response.status, status, "{path}: {response:?}");
            let source = response.header("cache-status");
            assert!(!source.contains("fwd=stale"), "{path}: {response:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_lags_is_not_read_while_the_change_log_is_unreadable() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let fleet = fleet(1, &primary, &[&standby], |_, _| {}).await;
    let (replica, client) = (&fleet.replicas[0], fleet.database.connect().await);
    let key = fleet.database.new_key(1_000_000).await;
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    standby.pause_replay().await;
    let edit = "revoke select on registry_read.change from gene_registry_reader;
        update registry.gene set description = 'described anew'";
    client.batch_execute(edit).await.unwrap();

    eventually(TIMEOUT, "the last poll was long ago", || async {
        replica.metric("gene_registry_change_log_age_seconds").await.is_some_and(|age| age > 3.0)
    })
    .await;
    // No cache has this page.
    let response = replica.get("/genes?limit=7", Some(&key)).await;
    assert!(response.text.contains("described anew"), "{response:?}");
}
