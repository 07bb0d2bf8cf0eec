//! PgBouncer in transaction mode between the service and Postgres.

use std::time::Duration;

use gene_registry::config::Config;

use crate::support::need_own_servers;
use crate::support::pgbouncer::PgBouncer;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER};
use crate::support::traffic::{Traffic, burst, routes, uncached_path};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Three replicas behind PgBouncer.
async fn fleet<'a>(
    postgres: &'a PostgresServer,
    bouncer: &PgBouncer,
    change: impl FnOnce(&mut Config),
) -> Fleet<'a> {
    let redis = RedisServer::shared().await;
    let mut fleet = Fleet::start_with(0, postgres, redis, change).await;
    let config = &mut fleet.config;
    config.rate_limit.replicas = 3;
    config.upstream.url = Some(bouncer.url(fleet.database.name(), READER).into());
    config.upstream.prepared_statements = false;
    fleet.grow(3).await;
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn unnamed_statements_work_through_a_pooler_that_is_reloaded_midway() {
    need_own_servers!();
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    // One short-lived server connection for all: statements change connections all the time.
    let lines = ["default_pool_size = 2", "server_lifetime = 1", "server_idle_timeout = 1"];
    let bouncer = PgBouncer::start(&postgres, &lines).await;
    let fleet = fleet(&postgres, &bouncer, |_| {}).await;
    let key = fleet.database.new_key(1_000_000).await;
    let paths = routes(&fleet.database).await;
    for replica in &fleet.replicas {
        for path in &paths {
            assert_eq!(replica.get(path, Some(&key)).await.status, 200);
        }
    }

    let traffic = Traffic::start(&fleet, &key, &paths[0]);
    for _ in 0..5 {
        bouncer.reload().await;
        for timed in burst(&fleet.replicas, &key, 30).await {
            assert_eq!(timed.response.status, 200, "{timed:?}");
        }
    }

    for response in traffic.stop().await {
        assert_eq!(response.status, 200, "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn loss_of_the_poolers_idle_server_connections_fails_no_request() {
    need_own_servers!();
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let bouncer = PgBouncer::start(&postgres, &[]).await;
    let fleet = fleet(&postgres, &bouncer, |_| {}).await;
    let key = fleet.database.new_key(1_000_000).await;

    for _ in 0..5 {
        for timed in burst(&fleet.replicas, &key, 30).await {
            assert_eq!(timed.response.status, 200, "{timed:?}");
        }
        assert!(postgres.terminate_backends(fleet.database.name()).await > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_statements_end_and_do_not_break_the_pooler() {
    need_own_servers!();
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let bouncer = PgBouncer::start(&postgres, &[]).await;
    let fleet = fleet(&postgres, &bouncer, |config| config.upstream.query_ms = 2_000).await;
    let key = fleet.database.new_key(1_000_000).await;
    for replica in &fleet.replicas {
        assert_eq!(replica.get(&uncached_path(), Some(&key)).await.status, 200);
    }
    let lock = fleet.database.lock_genes().await;

    for timed in burst(&fleet.replicas, &key, 60).await {
        timed.response.assert_refused(503, "UNAVAILABLE");
    }
    let admin = postgres.admin().await;
    let sql = "select count(*) from pg_stat_activity
        where usename = 'gene_registry_reader' and state <> 'idle'";
    eventually(TIMEOUT, "no statement remains", || async {
        admin.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;

    lock.batch_execute("rollback").await.unwrap();
    for timed in burst(&fleet.replicas, &key, 60).await {
        assert_eq!(timed.response.status, 200, "{timed:?}");
    }
}
