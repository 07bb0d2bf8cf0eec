//! Entries written at the same time do not expire at the same time.

use super::{assert_ok, entry_keys, fleet_with, fresh_searches, long_timeouts, number};
use crate::support::redis::RedisServer;
use crate::support::traffic::uncached_path;

const ENTRIES: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_entries_written_together_expire_over_a_tenth_of_their_time() {
    let fleet = fleet_with(|config| {
        long_timeouts(config);
        fresh_searches(config);
    })
    .await;
    let (redis, key) = (RedisServer::shared().await, fleet.database.new_key(1_000_000).await);
    let paths: Vec<String> = (0..ENTRIES).map(|_| uncached_path()).collect();
    for (n, path) in paths.iter().enumerate() {
        assert_ok(&fleet.replicas[n % 3].get(path, Some(&key)).await);
    }

    let mut left = Vec::new();
    for entry in entry_keys(&fleet).await {
        let ms: i64 = redis.command(&["PTTL", &entry]).await;
        left.push(ms);
    }
    assert_eq!(left.len(), ENTRIES);
    // Pages without genes are kept for as long as they may be served.
    let longest = 3_030_000;
    let (min, max) = (*left.iter().min().unwrap(), *left.iter().max().unwrap());
    assert!(min > longest / 2 && max <= longest, "{min} {max}");
    assert!(max - min > max / 10, "{min} {max}");

    // They are fresh for different times too, and every replica reports the same for the same
    // entry.
    let mut spread = Vec::new();
    for path in &paths {
        let mut until = Vec::new();
        for replica in &fleet.replicas {
            let response = replica.get(path, Some(&key)).await;
            let age: i64 = response.header("age").parse().unwrap();
            until.push(age + number(response.header("cache-status"), "ttl"));
        }
        // Each of the two is a whole number of seconds.
        assert!(until.iter().all(|end| (end - until[0]).abs() <= 1), "{until:?}");
        spread.push(until[0]);
    }
    let (min, max) = (spread.iter().min().unwrap(), spread.iter().max().unwrap());
    assert!(max - min >= max / 10, "{min} {max}");
    // The jitter is up to a fifth of 3,000 s, in whole seconds.
    assert!(*max <= 3_000 && *min >= 2_399, "{min} {max}");
}
