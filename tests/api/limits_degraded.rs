//! Limits while Redis is unavailable, and limits that are not enforced.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use gene_registry::config::WithoutRedis;
use gene_registry::limit::{LimitOptions, Limiter, LimiterUnavailable};
use gene_registry::ops::LimitMetrics;
use gene_registry::redis::{AccessMode, RedisKeys, RedisPool};

use crate::support::binary::ReplicaProcess;
use crate::support::limiters::{Limiters, REDIS_TIMEOUT, admitted};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, Replica, sample};
use crate::support::wait::eventually;

const PATH: &str = "/arena/insights?domain=search";
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sends requests with other keys until every limiter counts in Redis again.
async fn wait_for_shared_counting(limiters: &Limiters) {
    eventually(TIMEOUT, "all limiters count in Redis again", || async {
        for limiter in &limiters.all {
            // The decision does not matter.
            let _ = limiter.decide(999_999, 1_000_000).await;
        }
        limiters.pools.iter().all(|pool| pool.is_fully_available(AccessMode::Write))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_each_replica_admits_its_share_and_shared_counting_resumes_later() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let limiters = Limiters::three(&redis);
    assert_eq!(limiters.admitted(30, 1, 10).await, 10);
    assert_eq!(limiters.admitted(6, 2, 10).await, 6);

    redis.kill().await;
    assert_eq!(limiters.admitted(60, 2, 10).await, 12, "a third of 10, rounded up, three times");
    assert_eq!(limiters.admitted(60, 3, 10).await, 12);
    // A window that is known to be exhausted stays so without Redis.
    assert_eq!(limiters.admitted(60, 1, 10).await, 0);
    assert!(!limiters.pools.iter().any(|pool| pool.is_fully_available(AccessMode::Write)));

    redis.restart().await;
    wait_for_shared_counting(&limiters).await;
    assert_eq!(limiters.admitted(60, 4, 10).await, 10);
    // The data was lost, so there is a new window.
    assert_eq!(limiters.admitted(60, 2, 10).await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_the_refuse_policy_refuses_all_requests_until_it_is_available() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let limiters = Limiters::new(3, &redis, REDIS_TIMEOUT, WithoutRedis::Refuse);
    assert_eq!(limiters.admitted(30, 1, 10).await, 10);

    redis.kill().await;
    let decided = join_all((0..60).map(|n| limiters.all[n % 3].decide(2, 10))).await;
    assert!(decided.iter().all(|decided| *decided == Err(LimiterUnavailable)), "{decided:?}");
    // Headers whose values are known are still sent.
    assert_eq!(limiters.admitted(6, 1, 10).await, 0);

    redis.restart().await;
    wait_for_shared_counting(&limiters).await;
    assert_eq!(limiters.admitted(60, 3, 10).await, 10);
}

#[tokio::test]
async fn a_hanging_redis_costs_each_request_one_timeout_and_one_share_in_all() {
    need_own_servers!();
    let (redis, timeout) = (RedisServer::start(&[]).await, Duration::from_secs(1));
    let limiters = Limiters::new(3, &redis, timeout, WithoutRedis::Local);
    limiters.decide(0, 1000, 30).await;
    redis.pause();

    let begun = Instant::now();
    let mut opener = Box::pin(limiters.decide(0, 1, 30));
    assert!((&mut opener).now_or_never().is_none());
    // The round trip of the first request begins before the others come.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let mut decisions = join_all((0..1000).map(|_| limiters.decide(0, 1, 30))).await;
    decisions.push(opener.await);
    assert!(begun.elapsed() < 2 * timeout, "{:?}", begun.elapsed());
    assert_eq!(admitted(&decisions), 10);

    // After one more, no request waits any more.
    limiters.decide(0, 2, 30).await;
    let begun = Instant::now();
    let decisions = join_all((0..1000).map(|_| limiters.decide(0, 2, 30))).await;
    assert!(begun.elapsed() < timeout, "{:?}", begun.elapsed());
    assert_eq!(admitted(&decisions), 9);

    redis.resume();
    wait_for_shared_counting(&limiters).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_are_not_enforced_are_counted_and_reported() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(1, postgres, redis, |config| {
        config.redis.timeout_ms = REDIS_TIMEOUT.as_millis() as u64;
        config.rate_limit.enforce = false;
    })
    .await;
    let (key, never) = (fleet.database.new_key(5).await, fleet.database.new_key(0).await);
    let replica = &fleet.replicas[0];
    for expected in [4, 3, 2, 1, 0, 0, 0, 0] {
        let response = replica.get(PATH, Some(&key)).await;
        assert_eq!(response.status, 200);
        assert_eq!(response.header("x-ratelimit-remaining"), expected.to_string());
        assert!(response.header("ratelimit").starts_with(&format!("\"key\";r={expected};t=")));
        assert_eq!(response.header("retry-after"), "");
    }
    assert_eq!(replica.get(PATH, Some(&never)).await.status, 200);
    let decisions = |result| format!("gene_registry_limit_decisions_total{{result=\"{result}\"}}");
    assert_eq!(replica.metric(&decisions("admitted")).await, Some(5.0));
    assert_eq!(replica.metric(&decisions("unenforced")).await, Some(4.0));
    assert_eq!(replica.metric(&decisions("refused")).await, Some(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_are_not_enforced_refuse_no_request_without_redis_either() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let options = LimitOptions {
        replicas: 1,
        without_redis: WithoutRedis::Refuse,
        enforce: false,
        metrics: LimitMetrics::default(),
    };
    let pool = RedisPool::new(redis.servers(), 2, REDIS_TIMEOUT).for_counters();
    let limiter = Limiter::shared(pool, RedisKeys::new("gr"), options);
    redis.kill().await;
    let decided = join_all((0..50).map(|_| limiter.decide(1, 2))).await;
    assert!(decided.iter().all(|decided| decided.is_ok_and(|decision| decision.admitted)));
    assert_eq!(decided[49].unwrap().remaining, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cannot_be_counted_get_all_headers() {
    need_own_servers!();
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::start(&[]).await);
    let fleet = Fleet::start_with(1, postgres, &redis, |config| {
        config.rate_limit.without_redis = WithoutRedis::Refuse;
    })
    .await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(1000).await);
    redis.kill().await;
    eventually(TIMEOUT, "the policy is to refuse", || async {
        let response = replica.get(PATH, Some(&key)).await;
        response.assert_refused(503, "UNAVAILABLE");
        let wait = response.header("retry-after");
        assert_eq!(response.header("x-ratelimit-limit"), "1000");
        assert_eq!(response.header("x-ratelimit-remaining"), "0");
        assert_eq!(response.header("x-ratelimit-reset"), wait);
        assert_eq!(response.header("ratelimit"), format!("\"key\";r=0;t={wait}"));
        policy(replica).await == [0.0, 0.0, 1.0].map(Some)
    })
    .await;
    let series = "gene_registry_limit_decisions_total{result=\"not_counted\"}";
    assert!(replica.metric(series).await.unwrap() >= 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_once_which_policy_is_in_force() {
    need_own_servers!();
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::start(&[]).await);
    let database = sample(postgres).await;
    let (key, database_url, redis_url) =
        (database.new_key(1_000_000).await, database.url_as(READER), redis.url());
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database_url),
        ("REDIS_URL", &redis_url),
        ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "1000"),
    ])
    .await;
    let request = || async { assert_eq!(process.replica.get(PATH, Some(&key)).await.status, 200) };
    let lines = || {
        let local_lines = process.lines_with(&["WARN", "each replica enforces its own share"]);
        (local_lines, process.lines_with(&["INFO", "limits are counted in redis"]))
    };
    let until_logged = |expected: (usize, usize)| {
        let (request, lines) = (&request, &lines);
        eventually(TIMEOUT, "the log has the line", move || async move {
            request().await;
            lines() == expected
        })
    };

    redis.kill().await;
    until_logged((1, 0)).await;
    for _ in 0..100 {
        request().await;
    }
    assert_eq!(lines(), (1, 0));
    redis.restart().await;
    until_logged((1, 1)).await;
    for _ in 0..100 {
        request().await;
    }
    assert_eq!(lines(), (1, 1));
}

async fn policy(replica: &Replica) -> [Option<f64>; 3] {
    let mut states = [None; 3];
    for (state, word) in states.iter_mut().zip(["shared", "local", "refusing"]) {
        let series = format!("gene_registry_limit_policy{{state=\"{word}\"}}");
        *state = replica.metric(&series).await;
    }
    states
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_show_the_policy_in_force_and_its_cost() {
    need_own_servers!();
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::start(&[]).await);
    let fleet = Fleet::start(1, postgres, &redis).await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(1000).await);
    let states = [[1.0, 0.0, 0.0].map(Some), [0.0, 1.0, 0.0].map(Some)];
    replica.get(PATH, Some(&key)).await;
    assert_eq!(policy(replica).await, states[0]);

    redis.kill().await;
    eventually(TIMEOUT, "the policy is local", || async {
        assert_eq!(replica.get(PATH, Some(&key)).await.status, 200);
        policy(replica).await == states[1]
    })
    .await;
    redis.restart().await;
    eventually(TIMEOUT, "the policy is shared", || async {
        assert_eq!(replica.get(PATH, Some(&key)).await.status, 200);
        policy(replica).await == states[0]
    })
    .await;

    let metric = |name: &'static str| async move {
        let value = replica.metric(&format!("gene_registry_limit_{name}")).await;
        value.unwrap_or_else(|| panic!("no {name}"))
    };
    assert!(metric("local_fallback_total").await >= 1.0);
    let waits = metric("wait_seconds_count").await;
    let decisions = metric("decisions_total{result=\"admitted\"}").await;
    assert!(waits >= 3.0 && waits == decisions, "{waits} {decisions}");
    let answered = metric("round_trip_seconds_count{outcome=\"answered\"}").await;
    let failed = metric("round_trip_seconds_count{outcome=\"failed\"}").await;
    assert!(answered >= 2.0 && failed >= 1.0);
    assert_eq!(metric("batch_requests_sum").await, waits);
    assert_eq!(metric("batch_commands_count").await, answered + failed);
}
