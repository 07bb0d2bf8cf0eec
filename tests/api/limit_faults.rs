//! Limits while Redis loses its scripts or its data.

use std::time::Duration;

use futures_util::future::join_all;

use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica};
use crate::support::traffic::Traffic;
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn counting_is_exact_while_scripts_are_flushed() {
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
        for response in join_all(requests).await {
            passed += usize::from(response.status == 200);
            assert!(response.status == 200 || response.status == 429, "{response:?}");
        }
    }

    assert_eq!(passed, 50);
    for response in traffic.stop().await {
        assert_eq!(response.status, 200, "{response:?}");
    }
}

/// How many round trips of the limiter got a reply from Redis.
async fn counted_in_redis(replica: &Replica) -> f64 {
    let series = r#"gene_registry_limit_round_trip_seconds_count{outcome="answered"}"#;
    replica.metric(series).await.unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn counting_resumes_after_redis_restarts_under_traffic() {
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
        // From now on, all replies are the new server's.
        let before = join_all(fleet.replicas.iter().map(counted_in_redis)).await;
        eventually(TIMEOUT, "every replica counts in Redis again", || async {
            let now = join_all(fleet.replicas.iter().map(counted_in_redis)).await;
            now.iter().zip(&before).all(|(now, before)| now > before)
        })
        .await;
        let key = fleet.database.new_key(10).await;
        let mut passed = 0;
        for index in 0..30 {
            let response = fleet.replicas[index % 3].get("/genes", Some(&key)).await;
            passed += usize::from(response.status == 200);
            assert!(response.status == 200 || response.status == 429, "{response:?}");
        }
        assert_eq!(passed, 10);
    }

    for response in traffic.stop().await {
        assert_eq!(response.status, 200, "{response:?}");
    }
}
