//! A primary and its standby that are killed, and a change log that is locked.

use super::{TIMEOUT, Watch, instance, uncached_requests};
use crate::support::binary::ReplicaProcess;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, sample};
use crate::support::standby::primary;
use crate::support::wait::eventually;

pub(super) const ALERTS: [&str; 5] = [
    "GeneRegistryChangeLogOld",
    "GeneRegistryDatabaseUnavailable",
    "GeneRegistryErrors",
    "GeneRegistryPrimaryUnavailable",
    "GeneRegistryStandbyNotRead",
];

pub(super) async fn fire() {
    let primary = primary().await;
    let database = sample(&primary).await;
    let key = database.new_key(1_000_000).await;
    let standby = primary.start_standby().await;
    let other_database = sample(PostgresServer::shared().await).await;
    let standby_url = standby.url(database.name(), READER);
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("GENE_REGISTRY__UPSTREAM__READ_URLS", &format!("[\"{standby_url}\"]")),
    ])
    .await;
    let replica = &process.replica;
    let other = ReplicaProcess::start(&[("DATABASE_URL", &other_database.url_as(READER))]).await;
    eventually(TIMEOUT, "the standby is read", async || {
        let series = "gene_registry_standby_in_use{standby=\"1\"}";
        replica.metric(series).await == Some(1.0)
    })
    .await;
    let watch = Watch::start(&ALERTS, &[replica, &other.replica]).await;

    let lock = other_database.connect().await;
    lock.batch_execute("begin; lock table registry.change").await.unwrap();

    let name = instance(replica);
    primary.kill().await;
    watch.fires_for("GeneRegistryPrimaryUnavailable", &name).await;
    standby.kill().await;
    watch.fires_for("GeneRegistryDatabaseUnavailable", &name).await;
    let requests = uncached_requests(replica, &key, 2, 10);
    watch.fires_for("GeneRegistryStandbyNotRead", &name).await;
    watch.fires("GeneRegistryErrors").await;
    drop(requests);

    watch.fires_for("GeneRegistryChangeLogOld", &instance(&other.replica)).await;
    watch.assert_complete();
}
