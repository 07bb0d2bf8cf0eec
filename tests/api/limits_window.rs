//! When windows begin and end, and what responses say about it.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gene_registry::keys::ApiKey;

use crate::support::limiters::{Limiters, REDIS_TIMEOUT, wait_for_retry_after};
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;

const MINUTE_MS: i64 = 60_000;
const PATH: &str = "/arena/insights?domain=search";

async fn fleet(redis: &RedisServer) -> Fleet<'static> {
    Fleet::start_with(3, PostgresServer::shared().await, redis, |config| {
        config.redis.timeout_ms = REDIS_TIMEOUT.as_millis() as u64;
    })
    .await
}

/// Makes the window of a key end after this many milliseconds. Must come before the window is full,
/// since replicas remember when a full window ends.
async fn shorten(redis: &RedisServer, counter: &str, ms: u64) {
    let done: i64 = redis.command(&["PEXPIRE", counter, &ms.to_string()]).await;
    assert_eq!(done, 1, "{counter} exists");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waits_for_retry_after_is_served_by_every_replica() {
    let redis = RedisServer::shared().await;
    let limiters = Limiters::three(redis);
    // Windows that end at various moments within a second.
    let clients = (0..60).map(|key| {
        let limiters = &limiters;
        async move {
            assert!(limiters.decide(0, key, 2).await.admitted);
            shorten(redis, &limiters.counter(key), 700 + 23 * u64::from(key)).await;
            let last = limiters.decide(0, key, 2).await;
            assert_eq!((last.admitted, last.remaining), (true, 0));
            // The first replica remembers the exhausted key, the others query Redis.
            let refusing = key as usize % 3;
            let refused = limiters.decide(refusing, key, 2).await;
            // A loaded machine may have let the window end.
            if !refused.admitted {
                let told = refused.retry_after_seconds();
                assert!((1..=60).contains(&told), "{refused:?}");
                wait_for_retry_after(told).await;
                assert!(limiters.decide(refusing, key, 2).await.admitted, "told to wait {told} s");
            }
            !refused.admitted
        }
    });
    let refused = join_all(clients).await.into_iter().filter(|refused| *refused).count();
    assert!(refused > 30, "only {refused} were refused: nothing was tested");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_polls_slightly_too_fast_gets_its_full_limit_in_each_window() {
    let redis = RedisServer::shared().await;
    let limiters = Limiters::three(redis);
    let (limit, window_ms, pause_ms) = (5, 3000, 150);
    let mut poll = tokio::time::interval(Duration::from_millis(pause_ms));
    let (mut served, mut refused, mut replica) = (Vec::new(), 0, 0);
    // Refused requests keep coming and prolong nothing.
    while served.len() < 4 {
        poll.tick().await;
        replica = (replica + 1) % 3;
        let decision = limiters.decide(replica, 1, limit).await;
        if !decision.admitted {
            refused += 1;
        } else if decision.remaining == limit - 1 {
            shorten(redis, &limiters.counter(1), window_ms).await;
            served.push(1);
        } else if let Some(served) = served.last_mut() {
            *served += 1;
        }
    }
    assert_eq!(served[..3], [limit; 3], "and {refused} were refused");
    assert!(refused >= 3, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_replicas_announce_the_same_end_of_the_window() {
    let redis = RedisServer::shared().await;
    let fleet = fleet(redis).await;
    let key = fleet.database.new_key(1000).await;
    let opened = Instant::now();
    fleet.replicas[0].get(PATH, Some(&key)).await;
    for round in 0..4 {
        // Replicas take the time from Redis alone, so the end of the window moves with its clock.
        wait_for_retry_after(u64::from(round > 0)).await;
        for replica in &fleet.replicas {
            let before = opened.elapsed().as_secs_f64();
            let response = replica.get(PATH, Some(&key)).await;
            let after = opened.elapsed().as_secs_f64();
            let reset: f64 = response.header("x-ratelimit-reset").parse().unwrap();
            let (latest, earliest) = (60.0 - before + 1.0, 60.0 - after - 1.0);
            assert!(earliest <= reset && reset <= latest, "{earliest} {reset} {latest}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_is_not_a_number_starts_at_zero() {
    let redis = RedisServer::shared().await;
    let limiters = Limiters::three(redis);
    for (key, nonsense) in
        (0..).zip(["abc", "-5", "1.5", "", " 3", "007", "nan", "1e3", "99999999999999999999"])
    {
        let () = redis.command(&["SET", &limiters.counter(key), nonsense]).await;
        assert_eq!(limiters.admitted(20, key, 7).await, 7, "{nonsense:?}");
        let left: i64 = redis.command(&["PTTL", &limiters.counter(key)]).await;
        assert!((1..=MINUTE_MS).contains(&left), "{nonsense:?}: {left}");
    }
    for (key, push) in (100..).zip(["LPUSH", "SADD", "PFADD"]) {
        let _: i64 = redis.command(&[push, &limiters.counter(key), "x"]).await;
        assert_eq!(limiters.admitted(20, key, 7).await, 7, "{push}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_without_or_with_too_long_a_time_to_live_ends_within_a_minute() {
    let redis = RedisServer::shared().await;
    let limiters = Limiters::three(redis);
    for (key, words) in (0..).zip([
        &["3"][..],
        &["9"],
        &["9999999999"],
        &["3", "EX", "100000"],
        &["9", "EX", "61"],
        &["0"],
    ]) {
        let counter = limiters.counter(key);
        let () = redis.command(&[&["SET", &counter], words].concat()).await;
        let already: usize = words[0].parse().unwrap();

        assert_eq!(limiters.admitted(20, key, 7).await, 7_usize.saturating_sub(already));

        let left: i64 = redis.command(&["PTTL", &counter]).await;
        assert!((1..=MINUTE_MS).contains(&left), "{words:?}: {left}");
    }
}

/// The one test that waits a real minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_refused_by_a_manual_counter_is_served_after_retry_after() {
    let redis = RedisServer::shared().await;
    let fleet = fleet(redis).await;
    let key = fleet.database.new_key(3).await;
    let id = key.parse::<ApiKey>().unwrap().hash().id();
    let counter = format!("{}:limit:{id}", fleet.prefix);
    let () = redis.command(&["SET", &counter, "1000000"]).await;

    let mut told = 0;
    for replica in &fleet.replicas {
        let refused = replica.get(PATH, Some(&key)).await;
        refused.assert_refused(429, "RATE_LIMITED");
        told = refused.header("retry-after").parse().unwrap();
    }
    wait_for_retry_after(told).await;

    for (replica, remaining) in fleet.replicas.iter().zip(["2", "1", "0"]) {
        let response = replica.get(PATH, Some(&key)).await;
        assert_eq!(
            (response.status.as_u16(), response.header("x-ratelimit-remaining")),
            (200, remaining)
        );
    }
    fleet.replicas[0].get(PATH, Some(&key)).await.assert_refused(429, "RATE_LIMITED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raised_limit_admits_the_difference_and_a_lowered_one_refuses_at_once() {
    let limiters = Limiters::three(RedisServer::shared().await);
    assert_eq!(limiters.admitted(60, 1, 10).await, 10);
    // By now all three know that the key is exhausted under the old limit.
    assert_eq!(limiters.admitted(60, 1, 25).await, 15);
    assert_eq!(limiters.admitted(60, 1, 5).await, 0);
    for replica in 0..3 {
        let lowered = limiters.decide(replica, 1, 5).await;
        assert_eq!((lowered.limit, lowered.remaining), (5, 0));
    }
    assert_eq!(limiters.admitted(60, 1, 26).await, 1);
    // A replica that learns of the change later still uses the old limit, which is exhausted.
    assert_eq!(limiters.admitted(60, 1, 25).await, 0);
}
