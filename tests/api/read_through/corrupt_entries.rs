//! Corrupt values in Redis in place of an entry: each is a miss, counted, and replaced.

use ::redis::cmd;

use super::{assert_ok, entry_keys, fleet_with_probe, sum, wait_until_ready};
use crate::support::redis::RedisServer;
use crate::support::traffic::routes;

const KINDS: [&str; 12] = [
    "empty",
    "random",
    "cut",
    "of another format",
    "with a wrong checksum",
    "of another key",
    "a list",
    "a hash",
    "huge",
    "of an older release",
    "from the future and broken",
    "text without an expiry",
];

/// The bytes that replace `entry`; `None` for a value that is no string.
fn rubbish(kind: &str, entry: &[u8], other: &[u8]) -> Option<Vec<u8>> {
    let mut changed = entry.to_vec();
    Some(match kind {
        "empty" => Vec::new(),
        "random" => {
            let mut random = vec![0; 300];
            getrandom::fill(&mut random).unwrap();
            random
        }
        "cut" => entry[..entry.len() / 2].to_vec(),
        "of another format" => {
            changed[0] = changed[0].wrapping_add(1);
            changed
        }
        "with a wrong checksum" => {
            changed[2] ^= 1;
            changed
        }
        "of another key" => other.to_vec(),
        "huge" => vec![b'x'; 4 << 20],
        "of an older release" => br#"{"data":[],"total":0,"limit":20,"offset":0}"#.to_vec(),
        "from the future and broken" => {
            changed[5..21].copy_from_slice(b"00ffffffffffffff");
            changed
        }
        "text without an expiry" => b"OK".to_vec(),
        _ => return None,
    })
}

async fn put(redis: &RedisServer, key: &str, kind: &str, bytes: Option<Vec<u8>>) {
    let mut connection = redis.connect().await.unwrap();
    let mut command = match (kind, bytes) {
        ("text without an expiry", Some(bytes)) => cmd("SET").arg(key).arg(bytes).to_owned(),
        (_, Some(bytes)) => cmd("SET").arg(key).arg(bytes).arg("EX").arg(600).to_owned(),
        (kind, None) => {
            let () = cmd("DEL").arg(key).query_async(&mut connection).await.unwrap();
            match kind {
                "a list" => cmd("RPUSH").arg(key).arg("a").arg("b").to_owned(),
                _ => cmd("HSET").arg(key).arg("a").arg("b").to_owned(),
            }
        }
    };
    let () = command.query_async(&mut connection).await.unwrap();
    drop(std::mem::take(&mut command));
}

async fn bytes(redis: &RedisServer, key: &str) -> Vec<u8> {
    let mut connection = redis.connect().await.unwrap();
    cmd("GET").arg(key).query_async(&mut connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_entry_of_any_kind_is_a_counted_miss_and_is_replaced() {
    let (mut fleet, probe) = fleet_with_probe(|_| {}).await;
    let redis = RedisServer::shared().await;
    let key = fleet.database.new_key(1_000_000).await;
    let paths = routes(&fleet.database).await;
    let mut right = Vec::new();
    for path in &paths {
        let response = fleet.replicas[0].get(path, Some(&key)).await;
        assert_ok(&response);
        right.push(response.text);
    }
    let entries = entry_keys(&fleet).await;
    assert_eq!(entries.len(), paths.len());

    for kind in KINDS {
        for (n, entry) in entries.iter().enumerate() {
            let other = bytes(redis, &entries[(n + 1) % entries.len()]).await;
            let replacement = rubbish(kind, &bytes(redis, entry).await, &other);
            put(redis, entry, kind, replacement).await;
            // The next one still finds its neighbour intact.
            fleet.replicas.truncate(0);
            for _ in 0..2 {
                fleet.replicas.push(super::start_replica(&fleet, &probe).await);
            }
            wait_until_ready(&fleet.replicas).await;
            let reads = probe.reads();
            for replica in &fleet.replicas {
                for (path, right) in paths.iter().zip(&right) {
                    let response = replica.get(path, Some(&key)).await;
                    assert_ok(&response);
                    assert_eq!(response.text, *right, "{kind}");
                }
            }
            assert_eq!(probe.reads(), reads + 1, "{kind}: read again, and then shared");
            let series = "gene_registry_shared_undecodable_total";
            assert_eq!(sum(&fleet.replicas, series).await, 1, "{kind}");
            let left: i64 = redis.command(&["PTTL", entry]).await;
            assert!(left > 0, "{kind}: {left}");
        }
    }
}

/// Corrupt values of all kinds at once, under many requests.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_with_only_corrupt_entries_responds_as_without_entries() {
    let (mut fleet, probe) = fleet_with_probe(|_| {}).await;
    let redis = RedisServer::shared().await;
    let key = fleet.database.new_key(1_000_000).await;
    let paths: Vec<String> =
        (0..KINDS.len()).map(|n| format!("/genes?limit=2&offset={n}")).collect();
    for path in &paths {
        assert_ok(&fleet.replicas[0].get(path, Some(&key)).await);
    }
    let entries = entry_keys(&fleet).await;
    for (kind, entry) in KINDS.iter().zip(&entries) {
        let replacement = rubbish(kind, &bytes(redis, entry).await, b"another");
        put(redis, entry, kind, replacement).await;
    }
    fleet.replicas.clear();
    for _ in 0..3 {
        fleet.replicas.push(super::start_replica(&fleet, &probe).await);
    }
    wait_until_ready(&fleet.replicas).await;
    let reads = probe.reads();

    let requests = (0..paths.len() * 12).map(|n| {
        let (replica, path) = (&fleet.replicas[n % 3], &paths[n / 12]);
        replica.get(path, Some(&key))
    });
    for response in futures_util::future::join_all(requests).await {
        assert_ok(&response);
    }
    assert_eq!(probe.reads(), reads + paths.len());
}
