//! Requests a minute, across replicas.

use futures_util::future::join_all;

use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;

#[tokio::test(flavor = "multi_thread")]
async fn of_200_parallel_requests_over_three_replicas_exactly_the_limit_passes() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    // The bound is exact while Redis answers, so a loaded machine gets more time.
    let fleet = Fleet::start_with(3, postgres, redis, |config| {
        config.redis.timeout_ms = 10_000;
    })
    .await;
    let key = fleet.database.new_key(20).await;

    let path = "/arena/insights?domain=search";
    let requests = (0..200).map(|n| fleet.replicas[n % 3].get(path, Some(&key)));
    let answers = join_all(requests).await;

    let (passed, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!(passed.len(), 20);
    for answer in &refused {
        answer.assert_refused(429, "RATE_LIMITED");
        assert_eq!(answer.header("x-ratelimit-remaining"), "0");
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait));
    }
    let mut remaining: Vec<u32> = passed
        .iter()
        .map(|answer| answer.header("x-ratelimit-remaining").parse().unwrap())
        .collect();
    remaining.sort_unstable();
    assert_eq!(remaining, (0..20).collect::<Vec<_>>());
}
