//! A database that is locked and has few connections, and one that refuses the password.

use super::{Watch, instance, uncached_requests};
use crate::support::binary::ReplicaProcess;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::replica::{READER, sample};

pub(super) const ALERTS: [&str; 4] = [
    "GeneRegistryDatabaseUnavailable",
    "GeneRegistryPoolExhausted",
    "GeneRegistryShedding",
    "GeneRegistrySlow",
];

/// As many as the replica's polls, the superuser and a few reads need, less than its pool.
const MAX_CONNECTIONS: u32 = 10;

pub(super) async fn fire() {
    let hba = vec!["host all stranger 127.0.0.1/32 scram-sha-256".to_owned()];
    let options = PostgresOptions { max_connections: MAX_CONNECTIONS, hba, ..Default::default() };
    let postgres = PostgresServer::start(options).await;
    let database = sample(&postgres).await;
    let key = database.new_key(1_000_000).await;
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("GENE_REGISTRY__UPSTREAM__WAIT_MS", "300"),
        ("GENE_REGISTRY__UPSTREAM__QUERY_MS", "600"),
        ("GENE_REGISTRY__SHED__WAIT_MS", "200"),
    ])
    .await;
    let replica = &process.replica;
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    let watch = Watch::start(&ALERTS, &[replica]).await;

    let lock = database.lock_genes().await;
    let requests = uncached_requests(replica, &key, 60, 200);
    watch.fires_for("GeneRegistryPoolExhausted", &instance(replica)).await;
    watch.fires("GeneRegistryShedding").await;
    watch.fires("GeneRegistrySlow").await;
    drop(requests);
    lock.batch_execute("rollback; create role stranger login password 'right'").await.unwrap();

    let url = database.url_as("stranger:wrong");
    let refused = ReplicaProcess::start(&[("DATABASE_URL", &url)]).await;
    watch.prometheus.scrape(&instance(&refused.replica)).await;
    watch.fires_for("GeneRegistryDatabaseUnavailable", &instance(&refused.replica)).await;
    watch.assert_complete();
}
