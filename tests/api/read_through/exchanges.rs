//! The number of round trips to Redis.

use super::{TIMEOUT, assert_ok, wait_until_ready};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::{Monitor, RedisServer};
use crate::support::replica::Fleet;
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

/// The commands since `from`, each with the kinds of its keys; without those that scripts ran.
async fn new_commands(redis: &RedisServer, monitor: &Monitor, from: &mut usize) -> Vec<String> {
    let mark = format!("mark-{from}");
    let _: String = redis.command(&["ECHO", &mark]).await;
    eventually(TIMEOUT, "the monitor has seen it", || async {
        !monitor.lines_with(&mark).is_empty()
    })
    .await;
    let lines = monitor.lines();
    let new = lines[*from..].iter().filter(|line| !line.contains(" lua]"));
    let new_commands = new.filter_map(|line| {
        let (_, command) = line.split_once("] \"")?;
        let name = command.split('"').next()?.to_ascii_uppercase();
        let kinds = ["limit", "entry", "lease", "outcome"];
        let kinds = kinds.iter().filter(|kind| command.contains(&format!(":{kind}:")));
        let kinds: Vec<_> = kinds.map(|kind| format!(" {kind}")).collect();
        (!kinds.is_empty()).then(|| format!("{name}{}", kinds.concat()))
    });
    let new_commands = new_commands.collect();
    *from = lines.len();
    new_commands
}

/// Waits until the server has `count` scripts. Until then a script is sent twice, the second time after
/// the calls beside it.
async fn has_scripts(redis: &RedisServer, count: u32) {
    eventually(TIMEOUT, "the server has the scripts", || async {
        let memory: String = redis.command(&["INFO", "memory"]).await;
        memory.contains(&format!("number_of_cached_scripts:{count}\r\n"))
    })
    .await;
}

const LIMIT: &str = "EVALSHA limit";
const GET_ENTRY: &str = "GET entry";
/// These two, and those of the publication, are each one round trip.
const ACQUIRE_LEASE: [&str; 2] = ["EVALSHA lease", "GETRANGE entry"];
const PUBLISH_NEW: [&str; 2] = ["SET entry", "EVALSHA lease"];
/// The publication where an entry exists already.
const PUBLISH_NEWER: [&str; 1] = ["EVALSHA entry lease"];

#[tokio::test(flavor = "multi_thread")]
async fn a_miss_takes_three_round_trips_to_redis_and_a_shared_hit_one_besides_the_limit() {
    need_own_servers!();
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::start(&[]).await);
    let fleet = Fleet::start_with(2, postgres, &redis, super::long_timeouts).await;
    wait_until_ready(&fleet.replicas).await;
    let key = fleet.database.new_key(1_000_000).await;
    let absent = |n: u32| format!("/genes/00000000-0000-0000-0000-00000000abc{n}/phenotype");
    assert_ok(&fleet.replicas[0].get(&uncached_path(), Some(&key)).await);
    fleet.replicas[0].get(&absent(0), Some(&key)).await.assert_refused(404, "NOT_FOUND");
    redis.published(&fleet.prefix).await;
    // For the limit, to acquire and to release a lease, and to delete.
    has_scripts(&redis, 4).await;
    let (monitor, path) = (redis.monitor().await, uncached_path());
    let mut from = 0;

    assert_ok(&fleet.replicas[0].get(&path, Some(&key)).await);
    redis.published(&fleet.prefix).await;
    assert_eq!(
        new_commands(&redis, &monitor, &mut from).await,
        [&[LIMIT, GET_ENTRY], &ACQUIRE_LEASE[..], &PUBLISH_NEW].concat(),
        "a miss"
    );

    let shared = fleet.replicas[1].get(&path, Some(&key)).await;
    assert!(shared.header("cache-status").contains("detail=shared"), "{shared:?}");
    assert_eq!(
        new_commands(&redis, &monitor, &mut from).await,
        [LIMIT, GET_ENTRY],
        "a hit in Redis"
    );
    assert_eq!(redis.keys(&format!("{}:lease", fleet.prefix)).await, Vec::<String>::new());

    assert_ok(&fleet.replicas[1].get(&path, Some(&key)).await);
    assert_eq!(new_commands(&redis, &monitor, &mut from).await, [LIMIT], "a hit in the replica");

    fleet.replicas[0].get(&absent(1), Some(&key)).await.assert_refused(404, "NOT_FOUND");
    redis.published(&fleet.prefix).await;
    let told = ["EVALSHA entry", "SET outcome", "EVALSHA lease"];
    let new_commands = new_commands(&redis, &monitor, &mut from).await;
    assert_eq!(
        new_commands,
        [&[LIMIT, GET_ENTRY], &ACQUIRE_LEASE[..], &told].concat(),
        "no other key"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_entry_is_replaced_by_a_script() {
    need_own_servers!();
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::start(&[]).await);
    let fleet = Fleet::start_with(1, postgres, &redis, |config| {
        super::long_timeouts(config);
        config.cache.search.fresh_s = 1;
        config.cache.search.stale_s = 0;
    })
    .await;
    wait_until_ready(&fleet.replicas).await;
    // Pages without genes leave Redis as soon as they have to be read again.
    let (replica, key, path) =
        (&fleet.replicas[0], fleet.database.new_key(1_000_000).await, "/genes?limit=3");
    assert_ok(&replica.get(path, Some(&key)).await);
    let read_again = async || {
        eventually(TIMEOUT, "the entry is read again", || async {
            let response = replica.get(path, Some(&key)).await;
            assert_ok(&response);
            response.header("cache-status") == "gene-registry; fwd=miss"
        })
        .await;
    };
    read_again().await;
    redis.published(&fleet.prefix).await;
    // For the limit, to acquire and to release a lease, and to replace.
    has_scripts(&redis, 4).await;
    let (monitor, mut from) = (redis.monitor().await, 0);
    read_again().await;
    redis.published(&fleet.prefix).await;
    let mut new_commands = new_commands(&redis, &monitor, &mut from).await;
    new_commands.retain(|command| command != LIMIT);
    assert_eq!(new_commands, [&[GET_ENTRY], &ACQUIRE_LEASE[..], &PUBLISH_NEWER].concat());
}
