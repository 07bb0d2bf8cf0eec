//! A change log that is slow, locked or forbidden while the rest of the database works: the
//! database stays in use, changes are visible by reading again, and no cached response becomes an
//! error.

use std::time::Duration;

use futures_util::future::join_all;
use gene_registry::config::Config;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::{DOMAIN, REPLICAS, always_fresh, genes_of, is_hit};
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica};
use crate::support::wait::{eventually, visible_within};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Without polls, entries are read again after two seconds, and keys are looked up again as often;
/// then there is the time of that read.
const VISIBLE_WITHIN: Duration = Duration::from_secs(5);

const FAILED_POLLS: &str = "gene_registry_change_log_polls_total{result=\"failed\"}";
const BREAKER_OPENINGS: &str = "gene_registry_breaker_openings_total{store=\"postgres\"}";

/// Why the log cannot be polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Slow,
    Forbidden,
    Locked,
}

impl Fault {
    /// Lasts until the client is dropped.
    async fn cause(self, database: &Database<'_>) -> Client {
        let client = database.connect().await;
        let sql = match self {
            Self::Slow => {
                "create or replace view registry_read.change as
                 select scope, changed_in, changed_at from registry.change
                 where (select pg_sleep(1)::text) is not null"
            }
            Self::Forbidden => "revoke select on registry_read.change from gene_registry_reader",
            Self::Locked => "begin; lock table registry.change in access exclusive mode",
        };
        client.batch_execute(sql).await.unwrap();
        client
    }

    /// A connection for changes. While the log is locked, only changes that are not logged can be
    /// made.
    async fn writer(self, database: &Database<'_>) -> Client {
        let client = database.connect().await;
        if self == Self::Locked {
            client.batch_execute("set session_replication_role = replica").await.unwrap();
        }
        client
    }
}

/// Timeouts as in production, for a machine that is slow to connect.
fn short_timeouts(config: &mut Config) {
    always_fresh(config);
    (config.upstream.wait_ms, config.upstream.connect_ms) = (1_000, 1_000);
    (config.upstream.query_ms, config.upstream.deadline_ms) = (600, 2_000);
}

/// One path of each route, all with the gene's name.
fn paths_with(gene: &str) -> [String; 3] {
    [
        format!("/genes?domain={DOMAIN}"),
        format!("/arena/insights?domain={DOMAIN}"),
        format!("/genes/{gene}/phenotype"),
    ]
}

/// Sends requests until `done` completes. Panics at a response that is an error, or was stale
/// because the database was thought to be unavailable.
async fn under_requests<T>(
    replicas: &[Replica],
    key: &str,
    paths: &[String],
    done: impl Future<Output = T>,
) -> T {
    let requests = replicas.iter().map(|replica| async move {
        loop {
            for path in paths {
                let response = replica.get(path, Some(key)).await;
                assert_eq!(response.status, 200, "{path}: {response:?}");
                let handled = response.header("cache-status");
                assert!(!handled.contains("fwd=stale"), "{path}: {handled}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    tokio::select! {
        done = done => done,
        _ = join_all::<_>(requests) => unreachable!("the requests never end"),
    }
}

/// Renames the gene and revokes the key; both must be visible within the bound on every replica.
async fn assert_changes_are_visible(
    fleet: &Fleet<'_>,
    writer: &Client,
    (gene, name): (&str, &str),
    [key, revoked]: [&str; 2],
) {
    let sql = "update registry.gene set name = $1 where id = $2::text::uuid";
    assert_eq!(writer.execute(sql, &[&name, &gene]).await.unwrap(), 1);
    let sql = "update registry.api_key set revoked_at = now() where prefix = $1";
    assert_eq!(writer.execute(sql, &[&&revoked[..11]]).await.unwrap(), 1);
    let (committed, paths) = (Instant::now(), &paths_with(gene));

    join_all(fleet.replicas.iter().enumerate().map(|(number, replica)| async move {
        for path in paths {
            let what = format!("replica {number} shows the new name: {path}");
            visible_within(committed, VISIBLE_WITHIN, &what, || async {
                let found = replica.get(path, Some(key)).await;
                if found.text.contains(name) { Ok(()) } else { Err(format!("{found:?}")) }
            })
            .await;
        }
        let what = format!("replica {number} refuses the revoked key");
        visible_within(committed, VISIBLE_WITHIN, &what, || async {
            let found = replica.get(&paths[0], Some(revoked)).await;
            if found.status == 401 { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }))
    .await;
}

async fn assert_database_in_use(replicas: &[Replica]) {
    for replica in replicas {
        assert_eq!(replica.ops("/readyz").await.json()["upstream"], "up");
        assert_eq!(replica.metric("gene_registry_upstream_in_use").await, Some(1.0));
        assert_eq!(replica.metric(BREAKER_OPENINGS).await, Some(0.0));
    }
}

async fn wait_for_failed_polls(replicas: &[Replica]) {
    for replica in replicas {
        eventually(TIMEOUT, "polls of the log fail", || async {
            replica.metric(FAILED_POLLS).await.unwrap() >= 3.0
        })
        .await;
    }
}

/// A log that fails under replicas that run.
async fn assert_correct_during(fault: Fault) {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(REPLICAS, postgres, redis, short_timeouts).await;
    let writer = fault.writer(&fleet.database).await;
    let key = fleet.database.new_key(1_000_000).await;
    let revoked =
        [fleet.database.new_key(1_000_000).await, fleet.database.new_key(1_000_000).await];
    let gene = genes_of(&writer, DOMAIN).await.swap_remove(0);
    let paths = paths_with(&gene);
    for replica in &fleet.replicas {
        for key in [&key, &revoked[0], &revoked[1]] {
            for path in &paths {
                assert_eq!(replica.get(path, Some(key)).await.status, 200);
            }
        }
    }

    let fault = fault.cause(&fleet.database).await;
    under_requests(&fleet.replicas, &key, &paths, async {
        wait_for_failed_polls(&fleet.replicas).await;
        assert_database_in_use(&fleet.replicas).await;
        for (name, revoked) in [("the first new name", &revoked[0]), ("the second", &revoked[1])] {
            let keys = [key.as_str(), revoked.as_str()];
            assert_changes_are_visible(&fleet, &writer, (&gene, name), keys).await;
        }
        assert_database_in_use(&fleet.replicas).await;
    })
    .await;
    drop(fault);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_log_leaves_the_database_in_use_and_changes_visible() {
    assert_correct_during(Fault::Slow).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_log_leaves_the_database_in_use_and_changes_visible() {
    assert_correct_during(Fault::Forbidden).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_log_leaves_the_database_in_use_and_changes_visible() {
    assert_correct_during(Fault::Locked).await;
}

/// A log that has failed before the replica starts.
async fn assert_starts_during(fault: Fault) {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(0, postgres, redis, short_timeouts).await;
    let writer = fault.writer(&fleet.database).await;
    let key = fleet.database.new_key(1_000_000).await;
    let revoked = fleet.database.new_key(1_000_000).await;
    let gene = genes_of(&writer, DOMAIN).await.swap_remove(0);
    let paths = paths_with(&gene);

    let fault = fault.cause(&fleet.database).await;
    fleet.grow(1).await;
    // After ten seconds the log counts as unreadable.
    eventually(TIMEOUT, "the replica is ready", || async {
        fleet.replicas[0].ops("/readyz").await.status == 200
    })
    .await;
    let response = fleet.replicas[0].get(&paths[0], Some(&revoked)).await;
    assert_eq!(response.status, 200, "{response:?}");

    under_requests(&fleet.replicas, &key, &paths, async {
        assert_changes_are_visible(&fleet, &writer, (&gene, "a new name"), [&key, &revoked]).await;
        assert_database_in_use(&fleet.replicas).await;
    })
    .await;
    drop(fault);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_starts_with_a_slow_log_serves() {
    assert_starts_during(Fault::Slow).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_starts_with_a_forbidden_log_serves() {
    assert_starts_during(Fault::Forbidden).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_starts_with_a_locked_log_serves() {
    assert_starts_during(Fault::Locked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_is_not_read_again_in_time_is_sent_as_unconfirmed() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(1, postgres, redis, short_timeouts).await;
    let writer = fleet.database.connect().await;
    let (key, gene) =
        (fleet.database.new_key(1_000_000).await, genes_of(&writer, DOMAIN).await.swap_remove(0));
    let (replica, path) = (&fleet.replicas[0], format!("/genes/{gene}/phenotype"));
    assert_eq!(replica.get(&path, Some(&key)).await.status, 200);

    let row = writer.query_one("select pg_get_viewdef('registry_read.gene')", &[]).await.unwrap();
    let view = row.get::<_, String>(0);
    let slow_genes = format!(
        "create or replace view registry_read.gene as select * from ({}) g
         where (select pg_sleep(0.3)::text) is not null",
        view.trim_end_matches(';')
    );
    writer.batch_execute(&slow_genes).await.unwrap();
    let _fault = Fault::Slow.cause(&fleet.database).await;
    let is_unconfirmed = async || {
        let response = replica.get(&path, Some(&key)).await;
        assert_eq!(response.status, 200, "{response:?}");
        let handled = response.header("cache-status");
        assert!(!handled.contains("fwd=stale"), "{response:?}");
        let is_unconfirmed = handled.contains("detail=unconfirmed");
        if is_unconfirmed {
            assert!(is_hit(&response), "{response:?}");
            let caching = response.header("cache-control").split(", ").collect::<Vec<_>>();
            assert!(caching.contains(&"max-age=0"), "{response:?}");
        }
        is_unconfirmed
    };
    eventually(TIMEOUT, "a response is unconfirmed", is_unconfirmed).await;
    let counted = replica.metric("gene_registry_answers_total{source=\"unconfirmed\"}").await;
    assert!(counted >= Some(1.0), "{counted:?}");

    // It is read again in the background.
    let sql = "update registry.gene set name = 'new' where id = $1::text::uuid";
    writer.execute(sql, &[&gene]).await.unwrap();
    let committed = Instant::now();
    visible_within(committed, VISIBLE_WITHIN, "the new name is visible", || async {
        is_unconfirmed().await;
        let found = replica.get(&path, Some(&key)).await;
        if found.json()["name"] == "new" { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    assert_database_in_use(&fleet.replicas).await;
}
