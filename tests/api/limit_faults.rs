//! Limits while Redis forgets, and requests that must cost neither Redis nor Postgres anything.

use std::time::Duration;

use futures_util::future::join_all;

use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica};
use crate::support::traffic::Traffic;
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn counting_goes_on_exactly_while_scripts_are_flushed() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let fleet = Fleet::start_with(3, PostgresServer::shared().await, &redis, |config| {
        config.redis.timeout_ms = 10_000;
    })
    .await;
    let (busy, key) = (fleet.database.new_key(1_000_000).await, fleet.database.new_key(50).await);
    let traffic = Traffic::start(&fleet, &busy, "/genes");

    let mut passed = 0;
    for _ in 0..20 {
        let requests = fleet.replicas.iter().map(|replica| replica.get("/genes", Some(&key)));
        let () = redis.command(&["SCRIPT", "FLUSH"]).await;
        for answer in join_all(requests).await {
            passed += usize::from(answer.status == 200);
            assert!(answer.status == 200 || answer.status == 429, "{answer:?}");
        }
    }

    assert_eq!(passed, 50);
    for answer in traffic.stop().await {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// Round trips for counts that Redis has answered.
async fn counted_in_redis(replica: &Replica) -> f64 {
    let series = r#"gene_registry_limit_round_trip_seconds_count{outcome="answered"}"#;
    replica.metric(series).await.unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn counting_goes_on_after_redis_was_restarted_under_traffic() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let fleet = Fleet::start_with(3, PostgresServer::shared().await, &redis, |config| {
        config.redis.timeout_ms = 1_000;
    })
    .await;
    let busy = fleet.database.new_key(1_000_000).await;
    let traffic = Traffic::start(&fleet, &busy, "/genes");

    for _ in 0..3 {
        redis.restart().await;
        // Whatever is answered from now on, the new server has answered.
        let before = join_all(fleet.replicas.iter().map(counted_in_redis)).await;
        eventually(SOON, "every replica counts in Redis again", || async {
            let now = join_all(fleet.replicas.iter().map(counted_in_redis)).await;
            now.iter().zip(&before).all(|(now, before)| now > before)
        })
        .await;
        let key = fleet.database.new_key(10).await;
        let mut passed = 0;
        for index in 0..30 {
            let answer = fleet.replicas[index % 3].get("/genes", Some(&key)).await;
            passed += usize::from(answer.status == 200);
            assert!(answer.status == 200 || answer.status == 429, "{answer:?}");
        }
        assert_eq!(passed, 10);
    }

    for answer in traffic.stop().await {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_metrics_and_the_document_cost_no_counter_and_no_query() {
    need_own_servers!();
    let conf = vec!["log_statement = 'all'".to_owned(), "log_connections = on".to_owned()];
    let options = PostgresOptions { conf, ..Default::default() };
    let (postgres, redis) = (PostgresServer::start(options).await, RedisServer::start(&[]).await);
    let fleet = Fleet::start(1, &postgres, &redis).await;
    let replica = &fleet.replicas[0];
    let ready = || async { replica.ops("/readyz").await.status == 200 };
    eventually(SOON, "it is ready", ready).await;
    let monitor = redis.monitor().await;
    let ours = || postgres.log().matches("gene_registry_reader@").count();
    let before = ours();

    for _ in 0..20 {
        for path in ["/livez", "/readyz", "/metrics"] {
            assert_eq!(replica.ops(path).await.status, 200);
        }
        for path in ["/openapi.json", "/openapi.yaml"] {
            assert_eq!(replica.get(path, None).await.status, 200);
        }
        replica.get("/genes", None).await.assert_refused(401, "UNAUTHORIZED");
    }

    // What comes after them is seen, so they would have been seen too.
    let () = redis.command(&["SET", "last-word", "1"]).await;
    postgres.admin().await.simple_query("select 'last-word'").await.unwrap();
    eventually(SOON, "both logs are complete", || async {
        !monitor.lines_with("last-word").is_empty() && postgres.log().contains("last-word")
    })
    .await;
    assert_eq!(ours(), before);
    assert_eq!(monitor.lines_with(&fleet.prefix), Vec::<String>::new());
    assert_eq!(redis.keys(&fleet.prefix).await, Vec::<String>::new());
}
