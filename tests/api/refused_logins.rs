//! The database refuses the login: a replica that starts is never ready, and one that has served treats
//! the database as unavailable.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::binary::ReplicaProcess;
use crate::support::database::Database;
use crate::support::need_own_servers;
use crate::support::pgbouncer::PgBouncer;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::replica::{READER, Replica, config, sample};
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

/// Longer than a replica waits for a database that it cannot reach.
const NOT_READY: Duration = Duration::from_secs(12);
const TIMEOUT: Duration = Duration::from_secs(20);
const IN_USE: &str = "gene_registry_upstream_in_use";
const FAILED_POLLS: &str = "gene_registry_change_log_polls_total{result=\"failed\"}";

/// A server that asks the reader for a password.
async fn server() -> PostgresServer {
    let hba = vec!["host all gene_registry_reader all scram-sha-256".to_owned()];
    let conf = vec!["password_encryption = 'scram-sha-256'".to_owned()];
    PostgresServer::start(PostgresOptions { hba, conf, ..Default::default() }).await
}

async fn set_password(database: &Database<'_>, password: &str) {
    let sql = format!("alter role {READER} login password '{password}'");
    database.connect().await.batch_execute(&sql).await.unwrap();
}

/// Waits until the replica has polled the database again, whatever came of it.
async fn polled_again(replica: &Replica) {
    let before = replica.metric(FAILED_POLLS).await;
    eventually(TIMEOUT, "another poll fails", || async {
        replica.metric(FAILED_POLLS).await > before
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_login_is_refused_is_never_ready() {
    need_own_servers!();
    let postgres = server().await;
    let database = sample(&postgres).await;
    set_password(&database, "right").await;
    let user = |login: &str| database.url_as(login);
    let no_database = user(&format!("{READER}:right")).replace(database.name(), "none");
    let begun = Instant::now();
    let mut replicas = Vec::new();
    for url in [
        user(&format!("{READER}:wrong")),
        // The client library refuses this itself.
        user(READER),
        user("nobody"),
        no_database,
        // One host is unavailable, the other one refuses the login.
        user(&format!("{READER}:wrong")).replace("127.0.0.1", "127.0.0.1:1,127.0.0.1"),
    ] {
        replicas.push(ReplicaProcess::start(&[("DATABASE_URL", &url)]).await);
    }
    for process in &replicas {
        process.wait_for_single_line(&["WARN", "this replica is not ready until"]).await;
    }

    postgres.restart().await;
    let is_over = async || begun.elapsed() > NOT_READY;
    eventually(NOT_READY + TIMEOUT, "the time is over for a database out of reach", is_over).await;
    for ReplicaProcess { replica, .. } in &replicas {
        polled_again(replica).await;
        let ready = replica.ops("/readyz").await;
        assert_eq!(ready.status, 503, "{ready:?}");
        assert_eq!(
            (&ready.json()["status"], &ready.json()["upstream"]),
            (&"starting".into(), &"down".into())
        );
        assert_eq!(replica.metric(IN_USE).await, Some(0.0));
    }

    set_password(&database, "wrong").await;
    let ReplicaProcess { replica, .. } = &replicas[0];
    eventually(TIMEOUT, "it is ready", || async { replica.ops("/readyz").await.status == 200 })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_a_pooler_refuses_never_makes_a_replica_ready() {
    need_own_servers!();
    let postgres = server().await;
    let database = sample(&postgres).await;
    set_password(&database, "right").await;
    // It logs in to the server without a password, and repeats that after 15 seconds only.
    let pooler = PgBouncer::start(&postgres, &[]).await;
    let url = pooler.url(database.name(), READER);
    let begun = Instant::now();
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &url),
        ("GENE_REGISTRY__UPSTREAM__PREPARED_STATEMENTS", "false"),
    ])
    .await;

    process.wait_for_single_line(&["WARN", "this replica is not ready until"]).await;
    let is_over = async || begun.elapsed() > NOT_READY;
    eventually(NOT_READY + TIMEOUT, "the time is over for a database out of reach", is_over).await;
    polled_again(&process.replica).await;
    assert_eq!(process.replica.ops("/readyz").await.status, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_refused_later_makes_the_database_unavailable() {
    need_own_servers!();
    let postgres = server().await;
    let database = sample(&postgres).await;
    set_password(&database, "first").await;
    let key = database.new_key(1_000).await;
    let mut config = config(&database.url_as(&format!("{READER}:first")), None);
    config.upstream.connect_ms = 1_500;
    let replica = Replica::start(&config).await;
    eventually(TIMEOUT, "it is ready", || async { replica.ops("/readyz").await.status == 200 })
        .await;
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);

    set_password(&database, "second").await;
    postgres.terminate_backends(database.name()).await;
    eventually(TIMEOUT, "the database counts as unavailable", || async {
        replica.metric(IN_USE).await == Some(0.0)
    })
    .await;
    assert_eq!(replica.ops("/readyz").await.json()["upstream"], "down");
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200, "from the cache");
    replica.get(&uncached_path(), Some(&key)).await.assert_refused(502, "DB_ERROR");

    set_password(&database, "first").await;
    eventually(TIMEOUT, "the database is available again", || async {
        replica.metric(IN_USE).await == Some(1.0)
    })
    .await;
}
