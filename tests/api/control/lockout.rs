//! Nobody keeps keys from being managed: users by many calls, or who records the use of keys and a replica
//! that stalls by an open transaction.

use std::time::Duration;

use gene_registry::keys::store::ListRange;
use gene_registry::keys::{ApiKey, KeyLimits, KeyPrefix, KeyStore, NewKey, PostgresKeys};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use super::replica;
use crate::support::control::{ControlClient, KEYS_ROLE, USAGE_ROLE, new_token, prefix};
use crate::support::database::Database;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresServer, connect};
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::replica::{Response, config, long_timeouts, migrated, new_key};
use crate::support::wait::{eventually, until};

const TIMEOUT: Duration = Duration::from_secs(30);

fn store_at(url: &str) -> PostgresKeys {
    let mut config = config(url, None);
    long_timeouts(&mut config);
    PostgresKeys::new(&config.upstream).unwrap()
}

fn limits() -> KeyLimits {
    let scopes = vec!["read".to_owned()];
    KeyLimits { max_rate_limit: 2_000_000, scopes, max_keys: 100 }
}

fn of(owner: &str) -> NewKey {
    NewKey { owner: owner.to_owned(), ..new_key() }
}

fn key_prefix(key: &ApiKey) -> KeyPrefix {
    key.prefix().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_that_records_use_keeps_no_key_from_being_revoked_or_rotated() {
    let database = migrated(PostgresServer::shared().await).await;
    let store = store_at(&database.url_as(KEYS_ROLE));
    let (one, _) = store.create(&of("a")).await.unwrap();
    let (other, _) = store.create(&of("a")).await.unwrap();
    let recorder = connect(&database.url_as(USAGE_ROLE)).await;
    recorder.batch_execute("begin").await.unwrap();
    let record = "select registry.record_key_usage($1, array[now(), now()], array[1, 1]::bigint[])";
    let hashes = [&one, &other].map(|key| key.hash().0.to_vec()).to_vec();
    recorder.execute(record, &[&hashes]).await.unwrap();

    store.revoke(Some("a"), &key_prefix(&one)).await.expect("it waits for nobody");
    let (limits, hour) = (limits(), Duration::from_secs(3_600));
    let rotated = store.rotate_within(Some(&limits), Some("a"), &key_prefix(&other), hour).await;
    store.revoke(None, &key_prefix(&other)).await.expect("it waits for nobody");

    rotated.expect("it waits for nobody");
    recorder.batch_execute("commit").await.expect("it was open all the time");
    let listed = store.list(Some("a"), ListRange::ALL).await.unwrap().keys;
    assert_eq!(listed.iter().map(|key| key.request_count).sum::<i64>(), 2);
}

/// The sessions of the role that manages keys for which an SQL condition on `pg_stat_activity` holds.
async fn sessions(observer: &Client, condition: &str) -> i64 {
    let sql = format!(
        "select count(*) from pg_stat_activity
         where datname = current_database() and usename = '{KEYS_ROLE}' and {condition}"
    );
    observer.query_one(&sql, &[]).await.unwrap().get(0)
}

const IS_WAITING: &str = "wait_event_type = 'Lock'";

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stalls_in_a_transaction_does_not_keep_its_locks() {
    need_own_servers!();
    let postgres = PostgresServer::shared().await;
    let database = migrated(postgres).await;
    let (store, observer) = (store_at(&database.url_as(KEYS_ROLE)), database.connect().await);
    let (key, _) = store.create(&of("a")).await.unwrap();
    let proxy = FaultProxy::start(postgres.addr()).await;
    let stalled = store_at(&proxy.url(&database.url_as(KEYS_ROLE)));
    // Its creation waits for the lock of the table, and gets it after the network has failed.
    let holder = database.connect().await;
    let lock = "begin; lock table registry.api_key in share row exclusive mode";
    holder.batch_execute(lock).await.unwrap();
    let creation =
        tokio::spawn(async move { stalled.create_within(Some(&limits()), &of("a")).await });
    eventually(TIMEOUT, "the creation waits", || async {
        sessions(&observer, IS_WAITING).await == 1
    })
    .await;
    proxy.set(Mode::Stall).await;
    holder.batch_execute("rollback").await.unwrap();
    eventually(TIMEOUT, "the creation has the lock", || async {
        sessions(&observer, "state = 'idle in transaction'").await == 1
    })
    .await;

    store.revoke(Some("a"), &key_prefix(&key)).await.expect("the lock was released");
    assert!(creation.await.unwrap().is_err());
}

/// Sends lists by `tasks` tasks until the result is dropped.
fn flood(client: &ControlClient, path: &'static str, tasks: usize) -> JoinSet<()> {
    let mut flood = JoinSet::new();
    for _ in 0..tasks {
        let client = client.clone();
        flood.spawn(async move {
            loop {
                client.get(path).await;
            }
        });
    }
    flood
}

/// The response to a list of a user with too many calls.
async fn refused_list(client: &ControlClient) -> Response {
    until(TIMEOUT, "a list is refused", || async {
        let response = client.get("/api-keys").await;
        (response.status == 503).then_some(response)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn users_with_many_calls_leave_connections_for_operators_and_revocations() {
    const USERS: [&str; 4] = ["bob", "carol", "dave", "olga"];
    let mut tokens = Vec::new();
    let (replica, database) = replica(|config| {
        config.control.operators = vec!["olga".to_owned()];
        tokens = USERS.map(|user| new_token(config, user)).into();
    })
    .await;
    let [bob, carol, dave, olga] =
        [0, 1, 2, 3].map(|at| ControlClient::new(&replica, Some(&*tokens[at])));
    let [of_bob, of_dave] = [bob.create("n").await, dave.create("n").await];
    let observer = database.connect().await;
    let waiting = async || sessions(&observer, IS_WAITING).await;
    // Each list, and each revocation, waits for it.
    let holder = database.connect().await;
    let lock = "begin; lock table registry.api_key_usage in access exclusive mode";
    holder.batch_execute(lock).await.unwrap();

    let _lists = [flood(&bob, "/api-keys?limit=1000", 8), flood(&carol, "/api-keys", 8)];
    for user in [&bob, &carol] {
        let refused = refused_list(user).await;
        refused.assert_refused(503, "UNAVAILABLE");
        assert_eq!(refused.header("retry-after"), "1");
        assert!(waiting().await <= 2, "half of the connections are free");
    }
    let operators = flood(&olga, "/api-keys?all=true", 1);
    eventually(TIMEOUT, "an operator has a connection", || async { waiting().await == 3 }).await;
    let revocation = tokio::spawn(async move {
        let revoke = json!({ "prefix": prefix(&of_dave) });
        until(TIMEOUT, "the key is revoked", || async {
            (dave.post("/api-keys/revoke", &revoke).await.status == 200).then_some(())
        })
        .await;
    });
    eventually(TIMEOUT, "a revocation has a connection", || async { waiting().await == 4 }).await;

    drop(operators);
    holder.batch_execute("rollback").await.unwrap();
    revocation.await.unwrap();
    let revoke = json!({ "prefix": prefix(&of_bob), "all": true });
    for _ in 0..20 {
        assert_eq!(olga.post("/api-keys/revoke", &revoke).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_caller_has_gone_counts_until_it_ends() {
    let mut token = String::new();
    let (replica, database) = replica(|config| token = new_token(config, "bob")).await;
    let bob = ControlClient::new(&replica, Some(&token));
    let (observer, holder) = (database.connect().await, database.connect().await);
    let lock = "begin; lock table registry.api_key_usage in access exclusive mode";
    holder.batch_execute(lock).await.unwrap();
    let gone = flood(&bob, "/api-keys", 2);
    let waiting = async || sessions(&observer, IS_WAITING).await;
    eventually(TIMEOUT, "both wait for the database", || async { waiting().await == 2 }).await;
    drop(gone);

    for _ in 0..4 {
        let next = tokio::time::timeout(Duration::from_millis(100), bob.get("/api-keys")).await;
        assert!(next.is_err(), "it waits until one of them has ended: {next:?}");
    }
    assert!(waiting().await <= 2);
}

/// Keys of all owners, and of one of them.
const STORED: i64 = 50_000;
const OF_BOB: i64 = 5_000;

/// The scans of the table of keys, and the rows that they have read from it, since it was created.
async fn scans(database: &Database<'_>) -> (i64, i64) {
    let sql = "select seq_scan + idx_scan, seq_tup_read + idx_tup_fetch from pg_stat_user_tables
        where relid = 'registry.api_key'::regclass and n_tup_ins = $1";
    let client = database.connect().await;
    until(TIMEOUT, "the statistics are up to date", || async {
        let row = client.query_opt(sql, &[&STORED]).await.unwrap();
        row.map(|row| (row.get(0), row.get(1)))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_users_keys_is_read_without_the_users_other_keys() {
    let database = migrated(PostgresServer::shared().await).await;
    let insert = format!(
        "insert into registry.owner (handle) select 'user-' || n from generate_series(0, 9) n;
        insert into registry.api_key (key_hash, prefix, owner, name, revoked_at, created_at)
        select sha256(n::text::bytea), 'gr_' || lpad(n::text, 8, '0'), 'user-' || n % 10, 'n', now(),
            now() - n * interval '1 s'
        from generate_series(1, {STORED}) n"
    );
    database.connect().await.batch_execute(&insert).await.unwrap();
    let vacuum = "vacuum (analyze) registry.api_key";
    database.connect().await.batch_execute(vacuum).await.unwrap();
    let (scans_before, rows_before) = scans(&database).await;

    let store = store_at(&database.url_as(KEYS_ROLE));
    let range = ListRange { limit: 10, offset: 0 };
    let listed = store.list(Some("user-3"), range).await.unwrap();
    assert_eq!((listed.keys.len(), listed.total), (10, OF_BOB.unsigned_abs()));
    // The statistics of a session are complete when it ends.
    drop(store);

    let rows = until(TIMEOUT, "the scans are counted", || async {
        let (scans, rows) = scans(&database).await;
        (scans >= scans_before + 2).then_some(rows - rows_before)
    })
    .await;
    assert!(rows < OF_BOB / 2, "{rows}");
}
