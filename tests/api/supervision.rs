//! A panic in a background task is counted and followed by a restart. Each is caused in what the
//! task calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gene_registry::app::{self, KeyManagement};
use gene_registry::config::{Config, UpstreamConfig};
use gene_registry::keys::store::{KeyList, KeyRotation, ListRange, StoreError, StoredKey};
use gene_registry::keys::{
    ApiKey, KeyChange, KeyLimits, KeyPrefix, KeyStore, NewKey, PostgresKeys, Usage,
};
use gene_registry::upstream::Postgres;

use crate::currency::always_fresh;
use crate::support::control::{KEYS_ROLE, prefix};
use crate::support::postgres::PostgresServer;
use crate::support::probe::{PanicIn, Probe};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A replica whose upstream panics when it is told to.
async fn probed() -> (Fleet<'static>, Arc<Probe>) {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(0, postgres, redis, always_fresh).await;
    let upstream = Postgres::new(&fleet.config.upstream, "install {id}".to_owned()).unwrap();
    let probe = Probe::new(upstream);
    fleet.replicas.push(Replica::with_upstream(&fleet.config, Arc::clone(&probe) as _).await);
    let replica = &fleet.replicas[0];
    eventually(TIMEOUT, "it is ready", async || replica.ops("/readyz").await.status == 200).await;
    (fleet, probe)
}

/// The panics of a task in this process.
async fn panics(replica: &Replica, task: &str) -> f64 {
    let series = format!("gene_registry_task_panics_total{{task=\"{task}\"}}");
    replica.metric(&series).await.unwrap_or_else(|| panic!("no series {series}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_seen_after_a_panic_in_a_poll() {
    let (fleet, probe) = probed().await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(1_000_000).await);
    let name = async || {
        let found = replica.get("/genes?limit=1", Some(&key)).await.json();
        found["data"][0]["name"].clone()
    };
    let before = name().await;

    probe.panic_in(PanicIn::Changes);
    eventually(TIMEOUT, "the panic", async || probe.has_panicked()).await;
    let edit = "update registry.gene set name = 'edited'";
    fleet.database.connect().await.batch_execute(edit).await.unwrap();

    eventually(TIMEOUT, "the change is seen", async || name().await == "edited").await;
    assert!(before.is_string() && before != "edited", "{before}");
    assert!(panics(replica, "change_log_polls").await >= 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_looked_up_after_a_panic_in_a_lookup() {
    let (fleet, probe) = probed().await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(1_000_000).await);

    probe.panic_in(PanicIn::Keys);
    let failed = replica.get("/genes", Some(&key)).await;

    assert!(failed.status.is_server_error(), "{failed:?}");
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    assert!(panics(replica, "key_record_batches").await >= 1.0);
}

/// Panics when it writes counts for the first time.
struct PanicsOnce {
    inner: PostgresKeys,
    has_panicked: AtomicBool,
}

#[async_trait]
impl KeyStore for PanicsOnce {
    async fn create_within(
        &self,
        limits: Option<&KeyLimits>,
        new: &NewKey,
    ) -> Result<(ApiKey, StoredKey), StoreError> {
        self.inner.create_within(limits, new).await
    }

    async fn list(&self, owner: Option<&str>, range: ListRange) -> Result<KeyList, StoreError> {
        self.inner.list(owner, range).await
    }

    async fn revoke(
        &self,
        owner: Option<&str>,
        prefix: &KeyPrefix,
    ) -> Result<StoredKey, StoreError> {
        self.inner.revoke(owner, prefix).await
    }

    async fn update_within(
        &self,
        limits: Option<&KeyLimits>,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        change: &KeyChange,
    ) -> Result<StoredKey, StoreError> {
        self.inner.update_within(limits, owner, prefix, change).await
    }

    async fn rotate_within(
        &self,
        limits: Option<&KeyLimits>,
        owner: Option<&str>,
        prefix: &KeyPrefix,
        overlap: Duration,
    ) -> Result<KeyRotation, StoreError> {
        self.inner.rotate_within(limits, owner, prefix, overlap).await
    }

    async fn add_usage(&self, usage: &[Usage]) -> Result<(), StoreError> {
        assert!(self.has_panicked.swap(true, Ordering::SeqCst), "a panic that the test causes");
        self.inner.add_usage(usage).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn use_of_keys_is_written_after_a_panic_in_the_writer() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let every_second = |config: &mut Config| config.keys.usage_every_s = 1;
    let fleet = Fleet::start_with(0, postgres, redis, every_second).await;
    let (url, upstream) = (fleet.database.url_as(KEYS_ROLE).into(), &fleet.config.upstream);
    let inner = PostgresKeys::new(&UpstreamConfig { url: Some(url), ..upstream.clone() }).unwrap();
    let store = Arc::new(PanicsOnce { inner, has_panicked: AtomicBool::new(false) });
    let keys = KeyManagement { store: Arc::clone(&store) as _, writable: true };
    let registry = Arc::new(Postgres::new(upstream, "install {id}".to_owned()).unwrap());
    let running = app::start_with_keys(&fleet.config, registry, Some(keys)).await.unwrap();
    let replica = Replica::external(&running.base_url(), &running.ops_url(), None);
    let (key, client) = (fleet.database.new_key(1_000_000).await, fleet.database.connect().await);

    eventually(TIMEOUT, "the panic", async || {
        replica.get("/genes", Some(&key)).await;
        store.has_panicked.load(Ordering::SeqCst)
    })
    .await;

    let sql = "select count(*) from registry.api_key_usage join registry.api_key k using (key_hash)
        where k.prefix = $1";
    eventually(TIMEOUT, "later use is written", async || {
        assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
        client.query_one(sql, &[&prefix(&key)]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    assert!(panics(&replica, "key_usage").await >= 1.0);
    running.shutdown().await;
}
