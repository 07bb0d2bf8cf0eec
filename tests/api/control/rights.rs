//! Writing keys without a role that may, and without a database: the listener reports the cause.

use futures_util::future::join_all;
use gene_registry::config::Config;
use gene_registry::default_schema::migrate;
use serde_json::json;

use super::replica;
use crate::support::control::{ControlClient, KEYS_ROLE, new_token, prefix, with_control};
use crate::support::need_own_servers;
use crate::support::pgbouncer::PgBouncer;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::replica::{READER, Replica, config, long_timeouts, migrated, sample};

/// Every kind of request that writes.
async fn assert_read_only(alice: &ControlClient, key: &str, says: &str) {
    for (path, body) in [
        ("/api-keys", json!({ "name": "ci" })),
        ("/api-keys/revoke", json!({ "prefix": prefix(key) })),
        ("/api-keys/rotate", json!({ "prefix": prefix(key) })),
        ("/api-keys/update", json!({ "prefix": prefix(key), "name": "new" })),
    ] {
        let response = alice.post(path, &body).await;
        response.assert_refused(503, "KEYS_READ_ONLY");
        let text = response.json()["error"].as_str().unwrap().to_owned();
        assert!(text.contains(says), "{text}");
        for hidden in ["SELECT", "INSERT", "registry.", "42501", "permission denied", READER] {
            assert!(!text.contains(hidden), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_role_to_write_keys_can_only_be_listed() {
    let mut token = String::new();
    let (replica, database) = replica(|config| {
        token = new_token(config, "team-test");
        config.control.database_url = None;
    })
    .await;
    let key = database.new_key(100).await;
    let alice = ControlClient::new(&replica, Some(&token));
    assert_eq!(alice.list().await[0]["prefix"], prefix(&key));
    assert_read_only(&alice, &key, "control.database_url").await;
    assert_eq!(alice.list().await[0]["status"], "active");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_write_gets_its_own_error() {
    let mut token = String::new();
    let (replica, database) = replica(|config| token = new_token(config, "team-test")).await;
    let key = database.new_key(100).await;
    let sql = "revoke select, insert, update on registry.api_key from gene_registry_keys";
    database.connect().await.batch_execute(sql).await.unwrap();
    let alice = ControlClient::new(&replica, Some(&token));
    assert_read_only(&alice, &key, "gene_registry_keys").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readers_role_can_not_be_used_to_write() {
    let mut token = String::new();
    let (replica, database) = replica(|config: &mut Config| {
        token = new_token(config, "team-test");
        config.control.database_url = config.upstream.url.clone();
    })
    .await;
    let key = database.new_key(100).await;
    let alice = ControlClient::new(&replica, Some(&token));
    assert_read_only(&alice, &key, "gene_registry_keys").await;
}

/// A role of an operator's own with all privileges that release 1.0 needs, in a database of 1.0.
const ONE_ROLE: &str = "drop function registry.record_key_usage;
    delete from registry.refinery_schema_history where version = 6;
    grant usage on schema registry, registry_read to gene_registry_test_all;
    grant select on all tables in schema registry_read to gene_registry_test_all;
    grant select, insert, update on registry.api_key, registry.api_key_usage
        to gene_registry_test_all;
    grant select, insert on registry.owner to gene_registry_test_all";

#[tokio::test(flavor = "multi_thread")]
async fn one_role_that_does_everything_goes_on_after_an_upgrade() {
    let database = sample(PostgresServer::shared().await).await;
    let client = database.connect().await;
    let _exists = client.batch_execute("create role gene_registry_test_all login").await;
    client.batch_execute(ONE_ROLE).await.unwrap();
    migrate::migrate(&mut database.connect().await).await.unwrap();
    let url = database.url_as("gene_registry_test_all");
    let mut config = config(&url, None);
    long_timeouts(&mut config);
    with_control(&mut config, &database);
    config.control.database_url = Some(url.into());
    let token = new_token(&mut config, "alice");
    let replica = Replica::start(&config).await;
    let alice = ControlClient::new(&replica, Some(&token));

    let key = alice.create("ci").await;
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    let overlap = json!({ "prefix": prefix(&key), "overlap_s": 60 });
    assert_eq!(alice.post("/api-keys/rotate", &overlap).await.status, 201);
    let revoke = json!({ "prefix": prefix(&key) });
    assert_eq!(alice.post("/api-keys/revoke", &revoke).await.status, 200);
    replica.shutdown().await;
    let used = "select sum(request_count)::bigint from registry.api_key_usage";
    assert_eq!(client.query_one(used, &[]).await.unwrap().get::<_, i64>(0), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_the_default_schema_is_named() {
    let postgres = PostgresServer::shared().await;
    let empty = postgres.create_database().await;
    let mut token = String::new();
    let (replica, database) = replica(|config: &mut Config| {
        token = new_token(config, "team-test");
        config.control.database_url = Some(empty.url().into());
    })
    .await;
    let key = database.new_key(100).await;
    let alice = ControlClient::new(&replica, Some(&token));
    assert_read_only(&alice, &key, "gene-registry migrate").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_listener_reports_an_unavailable_database_and_recovers() {
    let proxy = FaultProxy::start(PostgresServer::shared().await.addr()).await;
    let mut token = String::new();
    let database = migrated(PostgresServer::shared().await).await;
    let (replica, _other): (Replica, _) = replica(|config| {
        token = new_token(config, "alice");
        let keys = database.url_as(KEYS_ROLE);
        config.control.database_url = Some(proxy.url(&keys).into());
    })
    .await;
    let alice = ControlClient::new(&replica, Some(&token));
    let key = alice.create("ci").await;
    for mode in [Mode::Refuse, Mode::Stall] {
        proxy.set(mode).await;
        let list = alice.get("/api-keys").await;
        list.assert_refused(502, "DB_ERROR");
        let create = alice.post("/api-keys", &json!({ "name": "lost" })).await;
        create.assert_refused(502, "DB_ERROR");
        for hidden in ["127.0.0.1", "gene_registry_keys", "registry.", "SELECT"] {
            assert!(!list.text.contains(hidden) && !create.text.contains(hidden));
        }
        assert_eq!(alice.get("/whoami").await.status, 200);
        proxy.set(Mode::Pass).await;
        let revoked = alice.post("/api-keys/revoke", &json!({ "prefix": prefix(&key) })).await;
        assert_eq!(revoked.status, 200, "{revoked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_managed_through_a_pooler_in_transaction_mode() {
    need_own_servers!();
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    // The statements of one client are spread over several connections.
    let lines = ["default_pool_size = 2", "server_lifetime = 1", "server_idle_timeout = 1"];
    let bouncer = PgBouncer::start(&postgres, &lines).await;
    let database = migrated(&postgres).await;
    let mut token = String::new();
    let (replica, _other) = replica(|config| {
        token = new_token(config, "alice");
        config.control.database_url = Some(bouncer.url(database.name(), KEYS_ROLE).into());
    })
    .await;
    let alice = ControlClient::new(&replica, Some(&token));
    let mut keys = Vec::new();
    for _ in 0..10 {
        keys.extend(join_all([alice.create("ci"), alice.create("ci")]).await);
    }
    let rotate = json!({ "prefix": prefix(&keys[0]) });
    assert_eq!(alice.post("/api-keys/rotate", &rotate).await.status, 201);
    for key in &keys {
        let revoke = json!({ "prefix": prefix(key) });
        assert_eq!(alice.post("/api-keys/revoke", &revoke).await.status, 200);
    }
    assert_eq!(alice.list().await.len(), 21);
}
