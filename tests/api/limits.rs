//! Rate limits across replicas.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;

use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Response};
use crate::support::traffic::{routes, uncached_path};

/// Replicas with a timeout of Redis long enough for exact counts on a loaded machine.
async fn long_timeouts(count: u32) -> Fleet<'static> {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    Fleet::start_with(count, postgres, redis, |config| config.redis.timeout_ms = 10_000).await
}

fn number(response: &Response, name: &str) -> u64 {
    let value = response.header(name);
    value.parse().unwrap_or_else(|_| panic!("{name} is no number: {response:?}"))
}

/// The fleet's counters in Redis.
async fn counters(fleet: &Fleet<'_>) -> Vec<String> {
    RedisServer::shared().await.keys(&format!("{}:limit", fleet.prefix)).await
}

/// Checks all rate limit headers, which must agree.
#[track_caller]
fn assert_headers(response: &Response, limit: u64, remaining: u64) {
    assert_eq!(number(response, "x-ratelimit-limit"), limit, "{response:?}");
    assert_eq!(number(response, "x-ratelimit-remaining"), remaining, "{response:?}");
    let reset = number(response, "x-ratelimit-reset");
    assert!(reset <= 60, "{response:?}");
    assert_eq!(response.header("ratelimit-policy"), format!("\"key\";q={limit};w=60"));
    assert_eq!(response.header("ratelimit"), format!("\"key\";r={remaining};t={reset}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_200_parallel_requests_over_three_replicas_exactly_the_limit_passes() {
    let fleet = long_timeouts(3).await;
    let key = fleet.database.new_key(20).await;

    let path = "/arena/insights?domain=search";
    let requests = (0..200).map(|n| fleet.replicas[n % 3].get(path, Some(&key)));
    let responses = join_all(requests).await;

    let (passed, refused): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 200);
    assert_eq!(passed.len(), 20);
    for response in &refused {
        response.assert_refused(429, "RATE_LIMITED");
        assert_eq!(response.header("x-ratelimit-remaining"), "0");
        let wait: u64 = response.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait));
    }
    let mut remaining: Vec<u32> = passed
        .iter()
        .map(|response| response.header("x-ratelimit-remaining").parse().unwrap())
        .collect();
    remaining.sort_unstable();
    assert_eq!(remaining, (0..20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_to_a_valid_key_counts_and_states_what_remains_on_each_replica() {
    let fleet = long_timeouts(3).await;
    // Few enough for one window, also on a slow machine.
    const LIMIT: u64 = 36;
    let key = fleet.database.new_key(LIMIT as u32).await;
    let ask = |path: String, index: usize| {
        let (fleet, key) = (&fleet, &key);
        async move { fleet.replicas[index % 3].get(&path, Some(key)).await }
    };
    let mut remaining = LIMIT;
    for index in 0..4 {
        for (path, status) in [
            ("/genes", 200),
            ("/genes?limit=51", 400),
            ("/genes/nonsense/phenotype", 400),
            ("/genes/00000000-0000-0000-0000-000000000000/phenotype", 404),
            ("/arena/insights?domain=search", 200),
            ("/arena/insights?domain=nowhere", 404),
            ("/arena/insights", 400),
        ] {
            let response = ask(path.to_owned(), index).await;
            remaining -= 1;
            assert_eq!(response.status, status, "{response:?}");
            assert_headers(&response, LIMIT, remaining);
        }
    }
    let break_it = "alter view registry_read.gene rename to elsewhere";
    fleet.database.connect().await.batch_execute(break_it).await.unwrap();
    for index in 0..3 {
        let response = ask(uncached_path(), index).await;
        remaining -= 1;
        response.assert_refused(502, "DB_ERROR");
        assert_headers(&response, LIMIT, remaining);
    }
    for index in 0..remaining {
        ask("/genes".to_owned(), index as usize).await;
    }
    for index in 0..3 {
        let response = ask("/genes".to_owned(), index).await;
        response.assert_refused(429, "RATE_LIMITED");
        assert_headers(&response, LIMIT, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_operations_with_a_valid_key_are_counted() {
    let fleet = long_timeouts(1).await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(10).await);
    let unscoped =
        fleet.database.new_key_with(|key| key.spec.scopes = vec!["other".to_owned()]).await;
    let genes = format!("{}/genes", replica.base);
    let valid = [("X-API-Key", key.as_str())];

    for _ in 0..20 {
        for method in ["POST", "HEAD", "OPTIONS", "BREW"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(replica.send(method, &genes, &valid).await.status, 405);
        }
        for path in ["/nowhere", "/genes/", "//genes"] {
            replica.get(path, Some(&key)).await.assert_refused(404, "NOT_FOUND");
        }
        assert_eq!(replica.get("/openapi.json", Some(&key)).await.status, 200);
        replica.get("/genes", Some(&unscoped)).await.assert_refused(401, "UNAUTHORIZED");
        replica.get("/genes", None).await.assert_refused(401, "UNAUTHORIZED");
    }

    assert_eq!(counters(&fleet).await, Vec::<String>::new());
    assert_headers(&replica.get("/genes", Some(&key)).await, 10, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_zero_is_always_refused() {
    let fleet = long_timeouts(1).await;
    let key = fleet.database.new_key(0).await;
    for path in routes(&fleet.database).await {
        let response = fleet.replicas[0].get(&path, Some(&key)).await;
        response.assert_refused(429, "RATE_LIMITED");
        assert_headers(&response, 0, 0);
        assert_eq!(response.header("retry-after"), "60");
        assert!(response.text.contains("the limit 0") && !response.text.contains("try again"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waits_for_retry_after_is_served_at_the_end_of_a_window() {
    let fleet = long_timeouts(3).await;
    let redis = RedisServer::shared().await;
    let key = fleet.database.new_key(5).await;
    for _ in 0..5 {
        assert_eq!(fleet.replicas[0].get("/genes", Some(&key)).await.status, 200);
    }
    for index in 0..100 {
        let response = fleet.replicas[index % 3].get("/genes", Some(&key)).await;
        response.assert_refused(429, "RATE_LIMITED");
        assert!((1..=60).contains(&number(&response, "retry-after")), "{response:?}");
    }

    // The windows are shortened while no replica knows their keys to be at their limit.
    let mut cases = vec![(1_900, 0), (700, 1)];
    while let Some((left_ms, index)) = cases.pop() {
        let (key, before) = (fleet.database.new_key(5).await, counters(&fleet).await);
        assert_eq!(fleet.replicas[index].get("/genes", Some(&key)).await.status, 200);
        let mut counter = counters(&fleet).await;
        counter.retain(|counter| !before.contains(counter));
        let set = Instant::now();
        let () = redis.command(&["SET", &counter[0], "5", "PX", &left_ms.to_string()]).await;
        let response = fleet.replicas[index].get("/genes", Some(&key)).await;
        if response.status == 200 && set.elapsed() > Duration::from_millis(left_ms) {
            // A loaded machine has let the window end.
            cases.push((left_ms, index));
            continue;
        }
        response.assert_refused(429, "RATE_LIMITED");
        let wait = number(&response, "retry-after");
        assert!((1..=left_ms / 1_000 + 1).contains(&wait), "{response:?}");
        tokio::time::sleep(Duration::from_secs(wait)).await;
        assert_eq!(fleet.replicas[index].get("/genes", Some(&key)).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupted_counter_locks_no_key_out() {
    let fleet = long_timeouts(1).await;
    let redis = RedisServer::shared().await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(10).await);
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    let counter = counters(&fleet).await.pop().unwrap();
    let begins_again = ["", "nonsense", "-5", "1e3", " 3", "3 ", "07", "0x5", "3.5", "nan", "inf"];
    let begins_again = begins_again.map(|value| vec!["SET", &counter, value]).into_iter().chain([
        vec!["SET", &counter, "99999999999999999999", "PX", "5000"],
        vec!["RPUSH", &counter, "1", "2"],
        vec!["HSET", &counter, "field", "1"],
    ]);
    let goes_on = [
        (vec!["SET", &counter, "4"], 5),
        (vec!["SET", &counter, "4", "EX", "86400"], 5),
        // Last, since a key at its limit is refused without Redis from then on.
        (vec!["SET", &counter, "4000000000"], 0),
    ];

    for (command, remaining) in begins_again.map(|command| (command, 9)).chain(goes_on) {
        let _: i64 = redis.command(&["DEL", &counter]).await;
        let _: ::redis::Value = redis.command(&command).await;
        let response = replica.get("/genes", Some(&key)).await;
        assert_headers(&response, 10, remaining);
        if remaining == 0 {
            response.assert_refused(429, "RATE_LIMITED");
            assert!((1..=60).contains(&number(&response, "retry-after")), "{response:?}");
        }
        let left: i64 = redis.command(&["PTTL", &counter]).await;
        assert!((1..=60_000).contains(&left), "{command:?}: {left}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_limit_holds_for_the_window_that_is_open() {
    let fleet = long_timeouts(1).await;
    let redis = RedisServer::shared().await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(10).await);
    assert_headers(&replica.get("/genes", Some(&key)).await, 10, 9);
    let counter = counters(&fleet).await.pop().unwrap();

    // As if the limit had been 50 before.
    let () = redis.command(&["SET", &counter, "49", "PX", "30000"]).await;
    let response = replica.get("/genes", Some(&key)).await;
    response.assert_refused(429, "RATE_LIMITED");
    assert_headers(&response, 10, 0);
    let count: String = redis.command(&["GET", &counter]).await;
    assert_eq!(count, "49");
}
