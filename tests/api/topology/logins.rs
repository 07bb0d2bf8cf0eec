//! Users, passwords with any characters, unix sockets and IPv6.

use std::time::Duration;

use gene_registry::config::Config;

use crate::support::binary::ReplicaProcess;
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, long_timeouts, sample};
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

/// Every character that has a meaning in a URL or in TOML.
const PASSWORD: &str = "p@ss:w/o#r%d?=\"'é ";
const ENCODED_PASSWORD: &str = "p%40ss%3Aw%2Fo%23r%25d%3F%3D%22%27%C3%A9%20";

/// Checks that two replicas with this configuration share counts and entries in `redis`.
pub(super) async fn assert_used(redis: &RedisServer, change: impl FnOnce(&mut Config)) {
    let change = |config: &mut Config| {
        long_timeouts(config);
        change(config);
    };
    let fleet = Fleet::start_with(2, PostgresServer::shared().await, redis, change).await;
    let key = fleet.database.new_key(1_000).await;
    eventually(Duration::from_secs(20), "one replica has the other's entry", || async {
        let path = uncached_path();
        let [first, second] = [&fleet.replicas[0], &fleet.replicas[1]];
        assert_eq!(first.get(&path, Some(&key)).await.status, 200);
        let response = second.get(&path, Some(&key)).await;
        assert_eq!(response.status, 200);
        response.header("cache-status").contains("detail=shared")
    })
    .await;
    let mut remaining = Vec::new();
    for replica in &fleet.replicas {
        let response = replica.get("/genes", Some(&key)).await;
        remaining.push(response.header("x-ratelimit-remaining").parse::<i64>().unwrap());
    }
    assert_eq!(remaining[0] - remaining[1], 1, "they count together");
}

fn with_login(redis: &RedisServer, login: &str) -> String {
    redis.url().replace("://", &format!("://{login}@"))
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_of_any_characters_work_in_the_url_and_in_their_own_setting() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    for user in ["reader", "we:ird/u#ser"] {
        let password = format!(">{PASSWORD}");
        let words = ["ACL", "SETUSER", user, "reset", "on", &password, "~*", "+@all"];
        let () = redis.command(&words).await;
    }
    let url = with_login(&redis, &format!("reader:{ENCODED_PASSWORD}"));
    assert_used(&redis, |config| config.redis.url = Some(url.into())).await;
    let url = with_login(&redis, &format!("we%3Aird%2Fu%23ser:{ENCODED_PASSWORD}"));
    assert_used(&redis, |config| config.redis.url = Some(url.into())).await;
    // Separate settings take precedence over the URL.
    let url = with_login(&redis, "nobody:wrong");
    assert_used(&redis, |config| {
        config.redis.url = Some(url.into());
        config.redis.username = Some("reader".to_owned());
        config.redis.password = Some(PASSWORD.into());
    })
    .await;
    let refused: Vec<redis::Value> = redis.command(&["ACL", "LOG"]).await;
    assert!(refused.is_empty(), "{refused:?}");
}

/// The URL of a user with these rights on the tests' keys only.
async fn as_user_with(redis: &RedisServer, rights: &str) -> String {
    let mut words = vec!["ACL", "SETUSER", "least", "reset", "on", ">secret", "~gr-test-*"];
    words.extend(rights.split(' '));
    let () = redis.command(&words).await;
    with_login(redis, "least:secret")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_documented_rights_only_is_sufficient() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let rights = "+get +getrange +set +mget +evalsha +eval +incrby +pttl +pexpire +del +ping +info";
    let url = as_user_with(&redis, rights).await;
    assert_used(&redis, |config| config.redis.url = Some(url.into())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_show_local_limits_while_the_server_refuses_to_count() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    // The user may run the limiter's script, but not every command in it.
    let rights = "+get +getrange +set +mget +evalsha +eval +incrby +del +ping";
    let url = as_user_with(&redis, rights).await;
    let change = |config: &mut Config| {
        long_timeouts(config);
        config.redis.url = Some(url.into());
    };
    let fleet = Fleet::start_with(1, PostgresServer::shared().await, &redis, change).await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(1_000).await);
    let is_shown = async |state: &str| {
        assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
        let series = format!("gene_registry_limit_policy{{state=\"{state}\"}}");
        replica.metric(&series).await == Some(1.0)
    };
    let soon = Duration::from_secs(20);
    eventually(soon, "the replica's own share", || is_shown("local")).await;
    let () = redis.command(&["ACL", "SETUSER", "least", "+pttl", "+pexpire"]).await;
    eventually(soon, "counted together again", || is_shown("shared")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_command_is_logged_once_until_it_is_accepted_again() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let rights = "+get +getrange +mget +evalsha +eval +incrby +pttl +pexpire +del +ping +info";
    let (redis_url, prefix) = (as_user_with(&redis, rights).await, RedisServer::new_prefix());
    let database = sample(PostgresServer::shared().await).await;
    let (key, database_url) = (database.new_key(1_000_000).await, database.url_as(READER));
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database_url),
        ("REDIS_URL", &redis_url),
        ("GENE_REGISTRY__REDIS__PREFIX", &prefix),
        ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "5000"),
    ])
    .await;
    let replica = &process.replica;
    let send = async || assert_eq!(replica.get(&uncached_path(), Some(&key)).await.status, 200);
    let lines = |command: &str| {
        let command = format!("\"command\":\"{command}\"");
        let refused =
            process.lines_with(&["WARN", "redis refuses a command", &command, "can't run"]);
        (refused, process.lines_with(&["INFO", "redis accepts the command again", &command]))
    };
    let until = async |expected: (usize, usize)| {
        eventually(Duration::from_secs(20), "the line is logged", async || {
            send().await;
            lines("script acquire_lease") == expected
        })
        .await;
    };

    until((1, 0)).await;
    for _ in 0..50 {
        send().await;
    }
    assert_eq!(lines("script acquire_lease"), (1, 0));
    assert_eq!(lines("script put_if_newer"), (1, 0));
    assert_eq!(process.lines_with(&["unavailable"]), 0, "requests are counted: {}", process.log());
    assert_eq!(replica.metric("gene_registry_limit_policy{state=\"shared\"}").await, Some(1.0));

    let () = redis.command(&["ACL", "SETUSER", "least", "+set"]).await;
    until((1, 1)).await;
    let () = redis.command(&["ACL", "SETUSER", "least", "-set"]).await;
    until((2, 1)).await;
}

/// How often a right was missing.
async fn refusals(redis: &RedisServer) -> u32 {
    let errors: String = redis.command(&["INFO", "errorstats"]).await;
    let count = errors.lines().find_map(|line| line.strip_prefix("errorstat_NOPERM:count="));
    count.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_noticed_without_requests_for_as_long_as_it_is_missing() {
    need_own_servers!();
    let redis = RedisServer::start(&[]).await;
    let url = as_user_with(&redis, "+get +getrange +set +mget +ping").await;
    let change = |config: &mut Config| {
        long_timeouts(config);
        config.redis.url = Some(url.into());
    };
    let fleet = Fleet::start_with(1, PostgresServer::shared().await, &redis, change).await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(1_000).await);
    let soon = Duration::from_secs(20);
    let writes =
        async || replica.metric("gene_registry_redis_in_use{side=\"write\"}").await == Some(1.0);
    eventually(soon, "the missing right is noticed", async || {
        assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
        !writes().await
    })
    .await;
    let openings = "gene_registry_breaker_openings_total{store=\"redis_write\"}";
    let (opened, refused) = (replica.metric(openings).await, refusals(&redis).await);
    eventually(soon, "the probe has run", async || refusals(&redis).await > refused + 3).await;
    assert_eq!(replica.metric(openings).await, opened, "it never counted as available");
    let rights = ["+evalsha", "+eval", "+incrby", "+pttl", "+pexpire", "+del"];
    let () = redis.command(&[&["ACL", "SETUSER", "least"][..], &rights].concat()).await;
    eventually(soon, "Redis is available again", writes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unix_sockets_and_ipv6_reach_redis() {
    need_own_servers!();
    let redis = RedisServer::start(&["--bind", "127.0.0.1", "::1"]).await;
    let socket = redis.socket_url();
    assert_used(&redis, |config| config.redis.url = Some(socket.into())).await;
    let six = redis.url().replace("127.0.0.1", "[::1]");
    assert_used(&redis, |config| config.redis.url = Some(six.into())).await;
}
