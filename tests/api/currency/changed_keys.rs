//! API keys that a poll of the change log reports as changed: their records are read again without
//! a request, and until then they admit nobody.

use std::time::Duration;

use gene_registry::keys::ApiKey;
use tokio_postgres::Client;

use super::always_fresh;
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, Replica};
use crate::support::wait::{eventually, until};

const PATH: &str = "/genes";
const TIMEOUT: Duration = Duration::from_secs(20);

const GOOD_POLLS: &str = "gene_registry_change_log_polls_total{result=\"ok\"}";
const LOOKUPS: &str = "gene_registry_key_lookups_total{result=\"ok\"}";

/// One replica behind a proxy to its database.
struct ChangedKeySetup {
    proxy: FaultProxy,
    fleet: Fleet<'static>,
    client: Client,
}

impl ChangedKeySetup {
    async fn new() -> Self {
        let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
        let proxy = FaultProxy::start(postgres.addr()).await;
        let mut fleet = Fleet::start_with(0, postgres, redis, always_fresh).await;
        fleet.config.upstream.url = Some(proxy.url(&fleet.database.url_as(READER)).into());
        fleet.config.upstream.query_ms = 1_000;
        fleet.config.upstream.deadline_ms = 2_000;
        fleet.grow(1).await;
        let client = fleet.database.connect().await;
        Self { proxy, fleet, client }
    }

    fn replica(&self) -> &Replica {
        &self.fleet.replicas[0]
    }

    /// A new key whose record this replica has read.
    async fn known_key(&self) -> String {
        let key = self.fleet.database.new_key(1_000_000).await;
        self.assert_status(&key, 200).await;
        key
    }

    async fn assert_status(&self, key: &str, status: u16) {
        let response = self.replica().get(PATH, Some(key)).await;
        assert_eq!(response.status, status, "{response:?}");
    }

    async fn metric(&self, series: &str) -> f64 {
        self.replica().metric(series).await.unwrap_or(0.0)
    }
}

fn revocation(keys: &[&str]) -> String {
    let prefixes = keys.iter().map(|key| {
        let prefix = key.parse::<ApiKey>().unwrap().prefix().to_owned();
        format!("'{prefix}'")
    });
    let prefixes = prefixes.collect::<Vec<_>>().join(", ");
    format!("update registry.api_key set revoked_at = now() where prefix in ({prefixes})")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_key_that_cannot_be_read_is_rejected() {
    let setup = ChangedKeySetup::new().await;
    let (kept, revoked) = (setup.known_key().await, setup.known_key().await);

    // The lock is granted at the moment at which the revocation commits: from then on the record
    // cannot be read, but the change log can.
    let mut client = setup.fleet.database.connect().await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&revocation(&[&revoked])).await.unwrap();
    let lock = "begin; lock table registry.api_key in access exclusive mode";
    let locker = setup.fleet.database.connect().await;
    let locked = tokio::spawn(async move {
        locker.batch_execute(lock).await.unwrap();
        locker
    });
    let waits = "select 1 from pg_locks where not granted and mode = 'AccessExclusiveLock'
        and relation = 'registry.api_key'::regclass";
    eventually(TIMEOUT, "the lock is waited for", || async {
        !setup.client.query(waits, &[]).await.unwrap().is_empty()
    })
    .await;
    transaction.commit().await.unwrap();
    let locker = locked.await.unwrap();
    // The first of the two polls may have begun before the commit.
    let polls = setup.metric(GOOD_POLLS).await;
    eventually(TIMEOUT, "a poll finds the change", || async {
        setup.metric(GOOD_POLLS).await >= polls + 2.0
    })
    .await;

    let refused = async |key: &str| {
        setup.replica().get(PATH, Some(key)).await.assert_refused(502, "DB_ERROR");
    };
    refused(&revoked).await;
    setup.assert_status(&kept, 200).await;
    // The same holds while the whole database is unavailable, noticed or not.
    setup.proxy.set(Mode::Refuse).await;
    for _ in 0..5 {
        refused(&revoked).await;
    }
    setup.assert_status(&kept, 200).await;
    setup.proxy.set(Mode::Pass).await;
    locker.batch_execute("rollback").await.unwrap();
    until(TIMEOUT, "the record is read", || async {
        let response = setup.replica().get(PATH, Some(&revoked)).await;
        match response.status.as_u16() {
            401 => Some(()),
            502 => None,
            other => panic!("{other}: {response:?}"),
        }
    })
    .await;
    setup.assert_status(&kept, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_changed_keys_are_read_again_without_a_request() {
    const KEYS: usize = 300;
    let setup = ChangedKeySetup::new().await;
    let kept = setup.known_key().await;
    let mut keys = Vec::new();
    for _ in 0..KEYS {
        keys.push(setup.known_key().await);
    }
    let lookups = setup.metric(LOOKUPS).await;

    let all: Vec<&str> = keys.iter().map(String::as_str).collect();
    setup.client.batch_execute(&revocation(&all)).await.unwrap();
    eventually(TIMEOUT, "each record is read again", || async {
        setup.metric(LOOKUPS).await >= lookups + KEYS as f64
    })
    .await;

    setup.proxy.set(Mode::Refuse).await;
    for key in &keys {
        setup.assert_status(key, 401).await;
    }
    setup.assert_status(&kept, 200).await;
}
