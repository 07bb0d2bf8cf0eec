//! Requests with unknown keys or invalid tokens, that miss the caches, that meet broken rows, or in
//! which the service panics.

use std::sync::Arc;

use gene_registry::control::LoginToken;
use gene_registry::keys::ApiKey;
use gene_registry::upstream::Postgres;

use super::{Watch, instance, uncached_requests};
use crate::support::binary::ReplicaProcess;
use crate::support::control::KEYS_ROLE;
use crate::support::flood::Flood;
use crate::support::postgres::PostgresServer;
use crate::support::probe::{PanicIn, Probe};
use crate::support::random_hex;
use crate::support::replica::{READER, Replica, config, sample};

pub(super) const ALERTS: [&str; 6] = [
    "GeneRegistryBrokenRows",
    "GeneRegistryFewHits",
    "GeneRegistryInternalErrors",
    "GeneRegistryKeyGuessing",
    "GeneRegistryTaskPanics",
    "GeneRegistryTokenGuessing",
];

/// One row, by what a registry without this constraint may have.
const BREAK_A_ROW: &str = "
    alter table registry.gene drop constraint gene_fitness_score_check;
    update registry.gene set fitness_score = 'NaN'
        where id = (select id from registry_read.gene limit 1)";

pub(super) async fn fire() {
    let database = sample(PostgresServer::shared().await).await;
    let (url, key) = (database.url_as(READER), database.new_key(1_000_000).await);
    let tokens = format!("[{{user=\"alice\",sha256=\"{}\"}}]", random_hex(32));
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &url),
        ("CONTROL_DATABASE_URL", &database.url_as(KEYS_ROLE)),
        ("GENE_REGISTRY__CONTROL__BIND", "127.0.0.1:0"),
        ("GENE_REGISTRY__CONTROL__TOKENS", &tokens),
    ])
    .await;
    let replica = &process.replica;
    let watch = Watch::start(&ALERTS, &[replica]).await;

    database.connect().await.batch_execute(BREAK_A_ROW).await.unwrap();
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    let misses = uncached_requests(replica, &key, 2, 20);
    let (client, base) = (reqwest::Client::new(), replica.base.clone());
    let unknown_keys = Flood::start(4, 60, move || {
        client.get(format!("{base}/genes")).header("X-API-Key", new_key().expose())
    });
    let (client, root) = (reqwest::Client::new(), replica.control.clone().unwrap());
    let invalid_tokens = Flood::start(2, 20, move || {
        client.get(format!("{root}/control/v1/whoami")).bearer_auth(new_token().expose())
    });
    watch.fires("GeneRegistryTokenGuessing").await;
    watch.fires("GeneRegistryKeyGuessing").await;
    drop((unknown_keys, invalid_tokens));
    fire_by_a_panic(&watch, &url, &key).await;
    watch.fires("GeneRegistryBrokenRows").await;
    watch.fires("GeneRegistryFewHits").await;
    drop(misses);
    watch.assert_complete();
}

/// The first panic of a replica, in this process, because only here something can panic on demand.
async fn fire_by_a_panic(watch: &Watch, url: &str, key: &str) {
    let config = config(url, None);
    let probe = Probe::new(Postgres::new(&config.upstream, "install {id}".to_owned()).unwrap());
    let replica = Replica::with_upstream(&config, Arc::clone(&probe) as _).await;
    watch.prometheus.scrape(&instance(&replica)).await;

    probe.panic_in(PanicIn::Reads);
    assert_eq!(replica.get("/genes", Some(key)).await.status, 500);

    watch.fires("GeneRegistryInternalErrors").await;
    watch.fires_for("GeneRegistryTaskPanics", &instance(&replica)).await;
}

fn new_key() -> ApiKey {
    ApiKey::generate().unwrap()
}

fn new_token() -> LoginToken {
    LoginToken::generate().unwrap()
}
