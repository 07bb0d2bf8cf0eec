//! The last use and the request count of keys: counted by replicas, written in batches.

use std::time::{Duration, Instant};

use gene_registry::config::Config;
use gene_registry::registry::Timestamp;
use serde_json::Value;
use tokio_postgres::Client;

use super::replica;
use crate::support::binary::ReplicaProcess;
use crate::support::control::{ControlClient, KEYS_ROLE, USAGE_ROLE, new_token, prefix};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::replica::{READER, Replica, config, long_timeouts, sample};
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(20);

async fn send_requests(replica: &Replica, key: &str, times: usize) {
    for _ in 0..times {
        assert_eq!(replica.get("/genes", Some(key)).await.status, 200);
    }
}

/// The recorded number of requests of a key.
async fn written(client: &Client, key: &str) -> i64 {
    let sql = "select coalesce(sum(request_count), 0)::bigint from registry.api_key_usage u
        join registry.api_key k using (key_hash) where k.prefix = $1";
    client.query_one(sql, &[&prefix(key)]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_see_when_and_how_often_their_keys_were_used() {
    let mut token = String::new();
    let mut config = None;
    let (first, _database) = replica(|changed: &mut Config| {
        token = new_token(changed, "alice");
        changed.keys.usage_every_s = 1;
        config = Some(changed.clone());
    })
    .await;
    let mut config = config.unwrap();
    // A replica without a control listener counts too.
    config.control.bind = None;
    let second = Replica::start(&config).await;
    let alice = ControlClient::new(&first, Some(&token));
    let (used, unused) = (alice.create("used").await, alice.create("unused").await);
    let begun = Timestamp::now();
    send_requests(&first, &used, 3).await;
    send_requests(&second, &used, 4).await;
    // A request with invalid parameters counts as a use of the key.
    assert_eq!(first.get("/genes?limit=0", Some(&used)).await.status, 400);
    eventually(TIMEOUT, "eight requests are recorded", || async {
        alice.list().await[1]["request_count"] == 8
    })
    .await;
    let listed = alice.list().await;
    assert_eq!(listed[1]["prefix"], prefix(&used));
    let last: Timestamp = listed[1]["last_used_at"].as_str().unwrap().parse().unwrap();
    assert!((begun.as_second() - 2..=Timestamp::now().as_second() + 1).contains(&last.as_second()));
    assert_eq!(listed[0]["prefix"], prefix(&unused));
    assert_eq!(
        (&listed[0]["request_count"], &listed[0]["last_used_at"]),
        (&0.into(), &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usage_role_alone_records_use_and_takes_precedence_over_the_keys_role() {
    let database = sample(PostgresServer::shared().await).await;
    let client = database.connect().await;
    // It would refuse, if it were asked.
    let revoke = "revoke execute on function registry.record_key_usage from gene_registry_keys";
    client.batch_execute(revoke).await.unwrap();
    for control in [None, Some(database.url_as(KEYS_ROLE))] {
        let mut config = config(&database.url_as(READER), None);
        long_timeouts(&mut config);
        config.keys.usage_every_s = 86_400;
        config.keys.usage_database_url = Some(database.url_as(USAGE_ROLE).into());
        config.control.database_url = control.map(Into::into);
        let replica = Replica::start(&config).await;
        let key = database.new_key(100).await;
        send_requests(&replica, &key, 3).await;
        replica.shutdown().await;
        assert_eq!(written(&client, &key).await, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_use_is_written_at_shutdown_and_refused_keys_are_not_counted() {
    let (replica, database) = replica(|config| {
        new_token(config, "alice");
        config.keys.usage_every_s = 86_400;
    })
    .await;
    let client = database.connect().await;
    let (used, gone) = (database.new_key(1_000_000).await, database.new_key(1_000_000).await);
    let revoked = database.new_key(1_000_000).await;
    let sql = "update registry.api_key set revoked_at = now() where prefix = $1";
    client.execute(sql, &[&prefix(&revoked)]).await.unwrap();
    send_requests(&replica, &used, 5).await;
    send_requests(&replica, &gone, 1).await;
    assert_eq!(replica.get("/genes", Some(&revoked)).await.status, 401);
    // A key that is deleted before the write does not prevent the write of the others.
    let sql = "delete from registry.api_key where prefix = $1";
    client.execute(sql, &[&prefix(&gone)]).await.unwrap();
    assert_eq!(written(&client, &used).await, 0, "requests do not write");
    replica.shutdown().await;
    assert_eq!(written(&client, &used).await, 5);
    let rows = client.query("select from registry.api_key_usage", &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_batch_is_logged_and_delays_no_request() {
    need_own_servers!();
    let postgres = PostgresServer::shared().await;
    let database = sample(postgres).await;
    let proxy = FaultProxy::start(postgres.addr()).await;
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("USAGE_DATABASE_URL", &proxy.url(&database.url_as(USAGE_ROLE))),
        ("GENE_REGISTRY__KEYS__USAGE_EVERY_S", "1"),
    ])
    .await;
    let key = database.new_key(1_000_000).await;
    let client = database.connect().await;
    for (mode, batches) in [(Mode::Refuse, 1), (Mode::Stall, 2)] {
        proxy.set(mode).await;
        let begun = Instant::now();
        let mut slowest = Duration::ZERO;
        while process.lines_with(&["cannot write counts of key use"]) < batches {
            assert!(begun.elapsed() < TIMEOUT, "not logged: {}", process.log());
            let sent = Instant::now();
            assert_eq!(process.replica.get(&uncached_path(), Some(&key)).await.status, 200);
            slowest = slowest.max(sent.elapsed());
        }
        // The attempt takes five seconds if the database does not respond.
        assert!(slowest < Duration::from_secs(4), "{slowest:?}");
    }
    proxy.set(Mode::Pass).await;
    let before = written(&client, &key).await;
    eventually(TIMEOUT, "requests are counted again", || async {
        process.replica.get("/genes", Some(&key)).await;
        written(&client, &key).await > before
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_role_that_may_write_nothing_is_written_and_it_is_logged_once() {
    let database = sample(PostgresServer::shared().await).await;
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("GENE_REGISTRY__KEYS__USAGE_EVERY_S", "1"),
    ])
    .await;
    let key = database.new_key(1_000_000).await;
    send_requests(&process.replica, &key, 3).await;
    process.wait_for_single_line(&["control.database_url is not set", "last use"]).await;
    assert_eq!(process.lines_with(&["are lost"]), 0);
}
