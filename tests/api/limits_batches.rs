//! Batches of the limiter: which commands Redis gets for many concurrent requests.
//!
//! Tests in which the order of requests matters run on one thread: requests that are sent together
//! all wait before the first round trip begins.

use futures_util::FutureExt;
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;

use crate::support::limiters::{Limiters, REDIS_TIMEOUT, admitted};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;

/// How often Redis has read from a connection. Commands that are sent together are read together.
pub(crate) async fn reads(connection: &mut MultiplexedConnection) -> u64 {
    let info: String = redis::cmd("INFO").arg("stats").query_async(connection).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
    line.unwrap().parse().unwrap()
}

/// Runs all tasks until each of them waits for something external.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn requests_that_wait_on_64_keys_are_one_round_trip() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let limiters = Limiters::three(&redis);
    let mut observer = redis.connect().await.unwrap();
    limiters.decide(0, 1000, 30).await;
    for round in 1..=3 {
        let before = reads(&mut observer).await;
        let decisions = join_all((0..64).map(|key| limiters.decide(0, key, 30))).await;
        let after = reads(&mut observer).await;

        assert!(decisions.iter().all(|decision| decision.remaining == 30 - round));
        // One of the two reads is that of this INFO command.
        assert_eq!(after - before, 2);
    }
}

#[tokio::test]
async fn requests_that_come_during_a_round_trip_share_the_next_one() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let limiters = Limiters::three(&redis);
    let mut observer = redis.connect().await.unwrap();
    limiters.decide(0, 1000, 30).await;
    let before = reads(&mut observer).await;

    redis.pause();
    let opener = limiters.decide(0, 1000, 30).shared();
    assert!(opener.clone().now_or_never().is_none());
    settle().await;
    let mut gathering: Vec<_> =
        (0..256).map(|n| Box::pin(limiters.decide(0, n % 64, 30))).collect();
    for decision in &mut gathering {
        assert!(decision.now_or_never().is_none());
    }
    redis.resume();
    opener.await;
    let decisions = join_all(gathering).await;
    let after = reads(&mut observer).await;

    assert_eq!(after - before, 3);
    // Four of each key are admitted, in the order in which they came.
    for (n, decision) in decisions.iter().enumerate() {
        assert_eq!((decision.admitted, decision.remaining), (true, 29 - n as u32 / 64));
    }
}

#[tokio::test]
async fn a_caller_that_leaves_before_the_round_trip_is_not_counted() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let limiters = Limiters::three(&redis);
    limiters.decide(0, 1000, 30).await;

    redis.pause();
    let opener = limiters.decide(0, 1000, 30).shared();
    assert!(opener.clone().now_or_never().is_none());
    settle().await;
    for key in [1, 1, 1, 2, 2] {
        assert!(
            limiters.decide(0, key, 2).now_or_never().is_none(),
            "the caller is dropped at once"
        );
    }
    let staying = join_all((0..3).map(|_| limiters.decide(0, 1, 2)));
    let (staying, ()) = tokio::join!(staying, async { redis.resume() });

    assert_eq!(admitted(&staying), 2);
    assert_eq!(staying.iter().map(|d| d.remaining).collect::<Vec<_>>(), [1, 0, 0]);
    let counter: Option<u32> = redis.command(&["GET", &limiters.counter(2)]).await;
    assert_eq!(counter, None);
}

#[tokio::test]
async fn several_limits_of_one_key_in_a_batch_each_hold() {
    let redis = RedisServer::shared().await;
    let limiters = Limiters::three(redis);
    let limits = [3, 3, 3, 3, 6, 6, 6, 6, 6, 3, 2];
    let decisions = join_all(limits.map(|limit| limiters.decide(0, 1, limit))).await;
    let admitted: Vec<_> = decisions.iter().map(|decision| decision.admitted).collect();
    assert_eq!(
        admitted,
        [true, true, true, false, true, true, true, false, false, false, false],
        "{decisions:?}"
    );
    for (decision, limit) in decisions.iter().zip(limits) {
        assert_eq!(decision.limit, limit);
        assert!(decision.remaining <= limit);
    }
    let count: u32 = redis.command(&["GET", &limiters.counter(1)]).await;
    assert_eq!(count, 6);
}

#[tokio::test]
async fn more_requests_than_fit_a_batch_are_all_counted() {
    let redis = RedisServer::shared().await;
    let limiters = Limiters::three(redis);
    let decisions = join_all((0..5000).map(|_| limiters.decide(0, 1, 4000))).await;
    let remaining: Vec<_> = decisions.iter().map(|decision| decision.remaining).collect();
    let expected: Vec<u32> = (0..4000).rev().chain(std::iter::repeat_n(0, 1000)).collect();
    assert_eq!(remaining, expected);
    assert_eq!(admitted(&decisions), 4000);

    // Requests with more keys than a round trip has commands, three times.
    let keys = (0..4500).map(|n| 10 + n % 1500);
    let decisions = join_all(keys.map(|key| limiters.decide(1, key, 2))).await;
    for (n, decision) in decisions.iter().enumerate() {
        let expected = [(true, 1), (true, 0), (false, 0)][n / 1500];
        assert_eq!((decision.admitted, decision.remaining), expected);
    }
}

#[tokio::test]
async fn batches_of_any_size_and_limit_are_counted_exactly() {
    let limiters = Limiters::three(RedisServer::shared().await);
    let mut random = [0; 600];
    getrandom::fill(&mut random).unwrap();
    let mut counts = [0_u32; 4];
    for bytes in random.chunks(3) {
        let (key, limit, requests) =
            (bytes[0] % 4, 1 + u32::from(bytes[1]), usize::from(bytes[2] % 40));
        let (count, replica) = (&mut counts[usize::from(key)], usize::from(bytes[2]) % 3);
        let decide = |_| limiters.decide(replica, key.into(), limit);
        for (index, decision) in join_all((0..requests).map(decide)).await.iter().enumerate() {
            let expected = *count < limit;
            *count += u32::from(expected);
            let remaining = limit.saturating_sub(*count);
            let seen = (decision.admitted, decision.remaining, decision.limit);
            assert_eq!(seen, (expected, remaining, limit), "request {index}; {random:?}");
        }
    }
}

#[tokio::test]
async fn a_command_that_fails_in_a_batch_does_not_affect_the_others() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let limiters = Limiters::three(&redis);
    limiters.decide(0, 1, 9).await;
    let (first, third) = (format!("~{}", limiters.counter(1)), format!("~{}", limiters.counter(3)));
    let () = redis.command(&["ACL", "SETUSER", "default", "resetkeys", &first, &third]).await;

    let keys = [1, 2, 3, 1, 2, 3, 1, 2, 3];
    let decisions = join_all(keys.map(|key| limiters.decide(0, key, 9))).await;

    let remaining = |key| {
        let of_key = keys.iter().zip(&decisions).filter(move |(k, _)| **k == key);
        of_key.map(|(_, decision)| decision.remaining).collect::<Vec<_>>()
    };
    assert_eq!((remaining(1), remaining(3)), (vec![7, 6, 5], vec![8, 7, 6]));
    // The second key's requests were decided by this replica's own share, a third, exactly once.
    assert_eq!(remaining(2), [2, 1, 0]);
    let counts: Vec<u32> =
        redis.command(&["MGET", &limiters.counter(1), &limiters.counter(3)]).await;
    assert_eq!(counts, [4, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn flushed_scripts_are_sent_again_without_counting_twice() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let limiters = Limiters::three(&redis);
    let mut admin = redis.connect().await.unwrap();
    let flushing = async {
        loop {
            let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut admin).await.unwrap();
        }
    };
    let asking = async {
        for round in 0..50 {
            let keys = 0..20;
            let requests = keys.flat_map(|key| std::iter::repeat_n(key, 3));
            let decisions = requests.map(|key| limiters.decide(key as usize % 3, key, 200));
            for decision in join_all(decisions).await {
                assert!(decision.admitted);
                let seen = 200 - decision.remaining;
                assert!((round * 3 + 1..=round * 3 + 3).contains(&seen), "{round}: {decision:?}");
            }
        }
    };
    tokio::select! {
        () = flushing => unreachable!("the limiter continues"),
        () = asking => {}
    }
    for key in 0..20 {
        let count: u32 = redis.command(&["GET", &limiters.counter(key)]).await;
        assert_eq!(count, 150, "key {key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_by_a_key_at_its_limit_costs_redis_a_handful_of_commands() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(3, postgres, redis, |config| {
        config.redis.timeout_ms = REDIS_TIMEOUT.as_millis() as u64;
    })
    .await;
    let key = fleet.database.new_key(5).await;
    let monitor = redis.monitor().await;

    let flood = |count: usize| {
        let (fleet, key) = (&fleet, &key);
        async move {
            let get =
                |n: usize| fleet.replicas[n % 3].get("/arena/insights?domain=search", Some(key));
            let responses = join_all((0..count).map(get)).await;
            responses.iter().filter(|response| response.status == 429).count()
        }
    };
    // Every replica looks the key up before the flood.
    assert_eq!(flood(3).await, 0);
    assert_eq!(flood(900).await, 898);
    assert_eq!(flood(900).await, 900);

    // The monitor lags behind; this command shows when it has caught up.
    let last = format!("{}:limit:last", fleet.prefix);
    let _: Option<String> = redis.command(&["GET", &last]).await;
    crate::support::wait::eventually(
        REDIS_TIMEOUT,
        "the monitor sees the last command",
        || async { !monitor.lines_with(&last).is_empty() },
    )
    .await;
    let of_key = monitor.lines_with(&format!("{}:limit:", fleet.prefix));
    let commands = of_key.iter().filter(|line| line.contains("\"EVAL")).count();
    assert!((3..=15).contains(&commands), "{commands} commands of three replicas: {of_key:?}");
}
