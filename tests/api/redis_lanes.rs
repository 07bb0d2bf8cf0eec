//! Lanes to Redis: the commands of concurrent callers share round trips, and large values delay no
//! small commands.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use gene_registry::config::{LoadedConfig, Topology};
use gene_registry::redis::{AccessMode, Call, RedisFailure, RedisPool, Servers};
use redis::{RedisResult, Value, cmd};

use crate::limits_batches::{reads, settle};
use crate::support::need_own_servers;
use crate::support::redis::RedisServer;
use crate::support::redis_cluster::RedisCluster;
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(60);

/// More than waits in a lane: 8 MiB.
const LARGE: usize = 3 << 20;

fn pool(redis: &RedisServer) -> RedisPool {
    RedisPool::new(redis.servers(), 4, TIMEOUT)
}

/// Runs `calls`, which it owns.
async fn run(
    pool: &RedisPool,
    mode: AccessMode,
    calls: Vec<Call>,
) -> Result<Vec<RedisResult<Value>>, RedisFailure> {
    pool.run(mode, &calls).await
}

fn get(key: &str) -> Vec<Call> {
    vec![Call::command(key, cmd("GET").arg(key).to_owned())]
}

fn set(key: &str, value: &[u8]) -> Vec<Call> {
    vec![Call::command(key, cmd("SET").arg(key).arg(value).to_owned())]
}

#[tokio::test]
async fn commands_that_come_during_round_trips_share_the_next_ones() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let lane = pool(&redis);
    for number in 0..64 {
        let () = redis.command(&["SET", &format!("key-{number}"), &number.to_string()]).await;
    }
    // Opens both connections.
    join_all([0, 1].map(|_| run(&lane, AccessMode::Read, get("key-0")))).await;
    let mut observer = redis.connect().await.unwrap();
    let before = reads(&mut observer).await;

    redis.pause();
    let calls =
        (0..66).map(|number| run(&lane, AccessMode::Read, get(&format!("key-{}", number % 64))));
    let mut replies = Box::pin(join_all(calls));
    assert!((&mut replies).now_or_never().is_none());
    settle().await;
    redis.resume();
    for (number, reply) in replies.await.into_iter().enumerate() {
        let expected = Value::BulkString((number % 64).to_string().into_bytes());
        assert_eq!(reply.unwrap(), [Ok(expected)], "{number}");
    }
    // The first command alone in each of two batches, then 16 in each, and that of this INFO command.
    assert!(reads(&mut observer).await - before <= 8);
}

#[tokio::test]
async fn reads_are_replied_to_while_writes_hang() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let lane = pool(&redis);
    let () = redis.command(&["CLIENT", "PAUSE", "600000", "WRITE"]).await;
    // More than are under way at once.
    let mut writes =
        Box::pin(join_all((0..8).map(|_| run(&lane, AccessMode::Write, set("key", b"value")))));
    assert!((&mut writes).now_or_never().is_none());
    settle().await;
    let read = run(&lane, AccessMode::Read, get("key")).await;
    assert_eq!(read.unwrap(), [Ok(Value::Nil)]);
    let () = redis.command(&["CLIENT", "UNPAUSE"]).await;
    for reply in writes.await {
        assert_eq!(reply.unwrap(), [Ok(Value::Okay)]);
    }
}

#[tokio::test]
async fn nothing_waits_for_a_server_on_which_reads_time_out() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let small = RedisPool::new(redis.servers(), 4, Duration::from_millis(500));
    run(&small, AccessMode::Read, get("key")).await.unwrap();
    redis.pause();
    eventually(TIMEOUT, "reads are rejected", || async {
        let read = run(&small, AccessMode::Read, get("key")).await;
        matches!(read, Err(RedisFailure::CircuitOpen))
    })
    .await;
    // Nothing counts requests, which would show that writes hang, too.
    for lane in [&small, &small.for_large_values()] {
        let write = run(lane, AccessMode::Write, set("key", b"value")).await;
        assert!(matches!(write, Err(RedisFailure::CircuitOpen)), "{write:?}");
    }
    redis.resume();
    eventually(TIMEOUT, "reads are sent again", || async {
        run(&small, AccessMode::Read, get("key")).await.is_ok()
    })
    .await;
    run(&small, AccessMode::Write, set("key", b"value")).await.unwrap();
}

#[tokio::test]
async fn large_values_that_wait_delay_no_small_command_and_the_oldest_are_given_up() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let small = pool(&redis);
    let large = small.for_large_values();
    let () = redis.command(&["CLIENT", "PAUSE", "600000", "WRITE"]).await;
    let value = vec![b'x'; LARGE];
    let mut values = Vec::new();
    for number in 0..6 {
        let mut one = Box::pin(run(&large, AccessMode::Write, set(&number.to_string(), &value)));
        assert!((&mut one).now_or_never().is_none());
        settle().await;
        values.push(one);
    }
    assert_eq!(run(&small, AccessMode::Read, get("0")).await.unwrap(), [Ok(Value::Nil)]);

    let () = redis.command(&["CLIENT", "UNPAUSE"]).await;
    // Two are under way, and two wait.
    let given_up = |reply: &Result<_, _>| matches!(reply, Err(RedisFailure::LaneFull));
    let replies = join_all(values).await;
    let expected = [false, false, true, true, false, false];
    assert_eq!(replies.iter().map(given_up).collect::<Vec<_>>(), expected, "{replies:?}");
    assert!(replies.iter().flatten().flatten().all(Result::is_ok), "{replies:?}");
}

#[tokio::test]
async fn a_large_value_may_wait_longer_than_a_command_may_take() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    // Long enough that the last write is replied to in time however busy the machine is.
    let timeout = Duration::from_secs(5);
    let large = RedisPool::new(redis.servers(), 4, timeout).for_large_values();
    let () = redis.command(&["CLIENT", "PAUSE", "600000", "WRITE"]).await;
    let value = vec![b'x'; LARGE];
    let put = async |key: &str| run(&large, AccessMode::Write, set(key, &value)).await;
    let mut under_way = Vec::new();
    for key in ["0", "1"] {
        let mut one = Box::pin(put(key));
        assert!((&mut one).now_or_never().is_none());
        settle().await;
        under_way.push(one);
    }
    let mut waits = Box::pin(put("2"));
    assert!((&mut waits).now_or_never().is_none());
    for one in under_way {
        let reply = one.await;
        assert!(matches!(reply, Err(RedisFailure::Timeout)), "{reply:?}");
    }
    let () = redis.command(&["CLIENT", "UNPAUSE"]).await;
    assert_eq!(waits.await.unwrap(), [Ok(Value::Okay)]);
}

#[tokio::test]
async fn a_node_that_hangs_delays_no_command_to_another_node() {
    need_own_servers!();
    let redis = RedisCluster::start().await;
    let mut config = LoadedConfig::read(None).unwrap().config.redis;
    config.topology = Topology::Cluster;
    config.urls = redis.urls().into_iter().map(Into::into).collect();
    let pool = RedisPool::new(Servers::read(&config).unwrap().unwrap(), 4, TIMEOUT);
    let nodes = redis.primaries(0).await;
    let mut keys = Vec::new();
    for node in &nodes[..2] {
        let mut number = 0;
        while redis.primary_of(redis.slot(&format!("key-{number}")).await, 0).await != *node {
            number += 1;
        }
        keys.push(format!("key-{number}"));
    }
    for key in &keys {
        eventually(TIMEOUT, "the node is in use", || async {
            let replies = run(&pool, AccessMode::Write, set(key, b"before")).await;
            replies.is_ok_and(|replies| replies == [Ok(Value::Okay)])
        })
        .await;
    }

    let () = redis.nodes[nodes[0]].command(&["CLIENT", "PAUSE", "600000", "WRITE"]).await;
    let writes = (0..8).map(|_| run(&pool, AccessMode::Write, set(&keys[0], b"value")));
    let mut writes = Box::pin(join_all(writes));
    assert!((&mut writes).now_or_never().is_none());
    settle().await;
    let other = run(&pool, AccessMode::Write, set(&keys[1], b"value")).await;
    assert_eq!(other.unwrap(), [Ok(Value::Okay)]);
    assert!((&mut writes).now_or_never().is_none(), "the node still hangs");

    let () = redis.nodes[nodes[0]].command(&["CLIENT", "UNPAUSE"]).await;
    let replies = writes.await;
    assert!(replies.iter().flatten().flatten().all(Result::is_ok), "{replies:?}");
}
