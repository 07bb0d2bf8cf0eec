//! A fleet without a fault, with all that has metrics of its own.

use serde_json::Value;

use super::Watch;
use crate::support::authority::{Authority, VALID};
use crate::support::binary::ReplicaProcess;
use crate::support::flood::Flood;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, sample};

/// Runs `causes` beside a healthy fleet with traffic, in which no alert may fire meanwhile.
pub(super) async fn fire_none_during(causes: impl Future<Output = ()>) {
    let database = sample(PostgresServer::shared().await).await;
    let (url, key) = (database.url_as(READER), database.new_key(1_000_000).await);
    let (redis, prefix) = (RedisServer::shared().await, RedisServer::new_prefix());
    let files = Authority::new().certify("localhost", VALID);
    let env = [
        ("DATABASE_URL", url.as_str()),
        // The primary serves as its own standby here.
        ("GENE_REGISTRY__UPSTREAM__READ_URLS", &format!("[\"{url}\"]")),
        ("REDIS_URL", &redis.url()),
        ("GENE_REGISTRY__REDIS__PREFIX", &prefix),
        ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "5000"),
        ("GENE_REGISTRY__SERVER__TLS__CERT_FILE", files.0.to_str().unwrap()),
        ("GENE_REGISTRY__SERVER__TLS__KEY_FILE", files.1.to_str().unwrap()),
    ];
    let (plain, secure) =
        (ReplicaProcess::start(&env[..5]).await, ReplicaProcess::start(&env).await);
    let watch = Watch::start(&[], &[&plain.replica, &secure.replica]).await;
    let (client, base) = (reqwest::Client::new(), plain.replica.base.clone());
    // Enough that the percentiles do not show single pauses of a loaded machine.
    let requests =
        Flood::start(1, 50, move || client.get(format!("{base}/genes")).header("X-API-Key", &key));

    causes.await;

    let statuses = requests.stop().await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    let seconds = watch.started.elapsed().as_secs();
    let fired = format!("count_over_time(ALERTS{{alertstate=\"firing\"}}[{seconds}s])");
    assert_eq!(watch.prometheus.query(&fired).await, [] as [Value; 0]);
    let scrapes = format!("min(count_over_time(up[{seconds}s]))");
    let scrapes = watch.prometheus.value(&scrapes).await;
    assert!(scrapes.is_some_and(|scrapes| scrapes > 10.0), "{scrapes:?}");
}
