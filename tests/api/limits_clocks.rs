//! Replicas with wrong clocks, each in a process of its own, since a process has one clock.

use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;

use crate::support::binary::ReplicaProcess;
use crate::support::fake_clock::FakeClock;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, sample};

const PATH: &str = "/arena/insights?domain=search";
const SHIFTS: [i64; 3] = [-30, 0, 30];

/// How far the clock behind a `Date` header is ahead of ours, in seconds.
fn ahead(date: &str) -> i64 {
    let date = jiff::fmt::rfc2822::parse(date).unwrap().timestamp().as_second();
    let ours = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    date - ours.as_secs() as i64
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_whose_clocks_differ_count_in_one_window_and_announce_one_end() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let database = sample(postgres).await;
    let key = database.new_key(12).await;
    let (database_url, redis_url) = (database.url_as(READER), redis.url());
    let prefix = RedisServer::new_prefix();
    let start = |shift: i64| {
        let [(preload, library), (variable, path)] = FakeClock::new(shift).env();
        let (database_url, redis_url, prefix) = (&database_url, &redis_url, &prefix);
        async move {
            ReplicaProcess::start(&[
                ("DATABASE_URL", database_url),
                ("REDIS_URL", redis_url),
                ("GENE_REGISTRY__REDIS__PREFIX", prefix),
                ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "10000"),
                (&preload, &library),
                (&variable, &path),
            ])
            .await
        }
    };
    let process = join_all(SHIFTS.map(start)).await;

    let mut opened = None;
    for place in 0..12 {
        let before = Instant::now();
        let response = process[place % 3].replica.get(PATH, Some(&key)).await;
        let opened = *opened.get_or_insert_with(Instant::now);

        assert_eq!(response.status, 200);
        assert_eq!(response.header("x-ratelimit-remaining"), (11 - place).to_string());
        assert!((ahead(response.header("date")) - SHIFTS[place % 3]).abs() < 15, "{response:?}");
        let passed = before.saturating_duration_since(opened);
        let expected = Duration::from_secs(60).saturating_sub(passed).as_secs_f64();
        let reset: f64 = response.header("x-ratelimit-reset").parse().unwrap();
        let allowed = 1.0 + before.elapsed().as_secs_f64();
        assert!((reset - expected).abs() <= allowed, "{reset} for {expected}");
    }
    for replica in process.iter().map(|process| &process.replica) {
        replica.get(PATH, Some(&key)).await.assert_refused(429, "RATE_LIMITED");
    }
}
