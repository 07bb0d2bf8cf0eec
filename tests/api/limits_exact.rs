//! Exactly the limit is admitted in a window, whatever the interleaving.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::support::limiters::{Limiters, REDIS_TIMEOUT};
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;

const REQUESTS: usize = 10_000;

/// Fewer over HTTP, which is slower, but still more than twice any key's limit.
const REQUESTS_OVER_HTTP: usize = 3_000;

/// A window. A run that takes longer spans two of them and is repeated with other keys.
const WINDOW: Duration = Duration::from_secs(60);
const MAX_TRIES: usize = 3;

/// Clients that each send one request after another.
const CLIENTS: usize = 200;

/// Checks the responses for one key: each admitted request has another `remaining`, and none is
/// skipped.
#[track_caller]
fn assert_exact(limit: u32, mut remaining_of_admitted: Vec<u32>) {
    remaining_of_admitted.sort_unstable();
    assert_eq!(remaining_of_admitted, (0..limit).collect::<Vec<_>>(), "limit {limit}");
}

/// The result of `run` within a single window.
async fn in_one_window<T>(run: impl AsyncFn() -> T) -> T {
    for _ in 0..MAX_TRIES {
        let begun = Instant::now();
        let ran = run().await;
        if begun.elapsed() < WINDOW {
            return ran;
        }
    }
    panic!("{MAX_TRIES} times more than a window: this machine is too slow to say anything");
}

async fn limiters_admit_exactly(limit: u32, keys: u32) {
    let remaining = in_one_window(async || ask_limiters(limit, keys).await).await;
    assert_eq!(remaining.len(), keys as usize);
    remaining.into_values().for_each(|of_key| assert_exact(limit, of_key));
}

/// The `remaining` of all admitted requests, by key.
async fn ask_limiters(limit: u32, keys: u32) -> HashMap<u32, Vec<u32>> {
    let limiters = Arc::new(Limiters::three(RedisServer::shared().await));
    let clients = (0..CLIENTS).map(|client| {
        let limiters = Arc::clone(&limiters);
        tokio::spawn(async move {
            let mut admitted = Vec::new();
            for request in 0..REQUESTS / CLIENTS {
                // Each client goes over the keys and the replicas in an order of its own.
                let key = (client * 7 + request * (client % 5 + 1)) as u32 % keys;
                let decision = limiters.decide((client + request * client) % 3, key, limit).await;
                assert!(decision.admitted || decision.remaining == 0, "{decision:?}");
                if decision.admitted {
                    admitted.push((key, decision.remaining));
                }
            }
            admitted
        })
    });
    let mut remaining = HashMap::<u32, Vec<u32>>::new();
    for client in join_all(clients).await {
        client.unwrap().into_iter().for_each(|(key, r)| remaining.entry(key).or_default().push(r));
    }
    remaining
}

#[tokio::test(flavor = "multi_thread")]
async fn of_10000_requests_with_one_key_exactly_the_limit_passes() {
    for limit in [1, 5, 30, 1000] {
        limiters_admit_exactly(limit, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_10000_requests_with_several_keys_exactly_the_limit_passes_for_each() {
    for limit in [1, 5, 30, 1000] {
        limiters_admit_exactly(limit, 6).await;
    }
}

/// The limit of each key.
const LIMITS: [u32; 4] = [1, 5, 30, 300];

#[tokio::test(flavor = "multi_thread")]
async fn of_3000_requests_over_http_exactly_the_limits_pass_with_counting_headers() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(3, postgres, redis, |config| {
        config.redis.timeout_ms = REDIS_TIMEOUT.as_millis() as u64;
    })
    .await;
    let admitted = in_one_window(async || ask_fleet(&fleet).await).await;
    for (which, limit) in LIMITS.into_iter().enumerate() {
        let of_key = admitted.iter().filter(|(key, _)| *key == which).map(|(_, r)| *r).collect();
        assert_exact(limit, of_key);
    }
}

/// The key and the `remaining` of each admitted request, with new keys.
async fn ask_fleet(fleet: &Fleet<'_>) -> Vec<(usize, u32)> {
    let keys = join_all(LIMITS.map(|limit| fleet.database.new_key(limit))).await;
    let clients = (0..60).map(|client| {
        let keys = &keys;
        async move {
            let mut admitted = Vec::new();
            for request in 0..REQUESTS_OVER_HTTP.div_ceil(60) {
                let which = (client + request) % keys.len();
                let replica = &fleet.replicas[(client + request * 5) % 3];
                let response =
                    replica.get("/arena/insights?domain=search", Some(&keys[which])).await;
                let remaining = response.header("x-ratelimit-remaining").parse::<u32>().unwrap();
                assert_eq!(response.header("x-ratelimit-limit"), LIMITS[which].to_string());
                match response.status.as_u16() {
                    200 => admitted.push((which, remaining)),
                    429 => assert_eq!(remaining, 0),
                    _ => panic!("{response:?}"),
                }
            }
            admitted
        }
    });
    join_all(clients).await.into_iter().flatten().collect()
}
