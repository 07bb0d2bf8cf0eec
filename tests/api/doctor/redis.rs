//! Redis.

use gene_registry::config::{Config, Topology};

use super::{Findings, as_reader, healthy};
use crate::support::database::Database;
use crate::support::fake_clock::FakeClock;
use crate::support::free_port;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::redis::RedisServer;
use crate::support::redis_cluster::RedisCluster;

fn with_redis(database: &Database<'_>, url: &str) -> Config {
    let mut config = as_reader(database);
    config.redis.url = Some(url.to_owned().into());
    config.redis.prefix = RedisServer::new_prefix();
    config
}

fn with_login(redis: &RedisServer, login: &str) -> String {
    redis.url().replace("redis://", &format!("redis://{login}@"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_cannot_be_used_is_serious() {
    need_own_servers!();
    let database = healthy(PostgresServer::shared().await).await;
    let redis = RedisServer::start(&[]).await;
    let unreachable = format!("redis://127.0.0.1:{}/", free_port());
    for (url, words) in [
        (unreachable, ["refused", "Start the server"]),
        (with_login(&redis, "nobody:wrong"), ["uthentication failed", "redis.password"]),
    ] {
        let findings = Findings::of(&with_redis(&database, &url)).await;
        findings.assert_serious("redis", &words);
        findings.assert_only(&["redis"]);
    }
    let port = free_port().to_string();
    let () = redis.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    let findings = Findings::of(&with_redis(&database, &redis.url())).await;
    findings.assert_serious("redis", &["refuses commands", "Connect to the primary"]);
    findings.assert_only(&["redis"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_named() {
    need_own_servers!();
    let database = healthy(PostgresServer::shared().await).await;
    let redis = RedisServer::start(&[]).await;
    let config = with_redis(&database, &with_login(&redis, "least:secret"));
    let keys = format!("~{}:*", config.redis.prefix);
    let mut user = vec!["ACL", "SETUSER", "least", "reset", "on", ">secret", &keys];
    user.extend("+get +set +mget +eval +evalsha +incrby +del +ping".split(' '));
    let () = redis.command(&user).await;
    let findings = Findings::of(&config).await;
    let remedy = format!("{keys} +getrange +pttl +pexpire.");
    findings.assert_serious("redis", &["lacks rights", &remedy]);
    findings.assert_warning("redis", &["INFO", "+info"]);
    findings.assert_only(&["redis"]);

    let rights = ["ACL", "SETUSER", "least", "+getrange", "+pttl", "+pexpire", "+info"];
    let () = redis.command(&rights).await;
    Findings::of(&config).await.assert_only(&[]);
    assert!(redis.keys(&config.redis.prefix).await.is_empty(), "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_policy_and_a_full_redis_are_warnings() {
    need_own_servers!();
    let database = healthy(PostgresServer::shared().await).await;
    let redis = RedisServer::start(&["--maxmemory-policy", "volatile-lru"]).await;
    let mut config = with_redis(&database, &redis.url());
    let findings = Findings::of(&config).await;
    findings.assert_warning("redis", &["maxmemory-policy is volatile-lru", "noeviction"]);
    findings.assert_only(&["redis"]);

    let () = redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    config.redis.max_bytes = 1_000;
    let findings = Findings::of(&config).await;
    findings.assert_warning("redis", &["% of its memory is in use", "maxmemory"]);
    findings.assert_only(&["redis"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_primary_of_a_cluster_is_checked() {
    need_own_servers!();
    let database = healthy(PostgresServer::shared().await).await;
    let cluster = RedisCluster::start().await;
    let mut config = as_reader(&database);
    config.redis.topology = Topology::Cluster;
    config.redis.prefix = RedisServer::new_prefix();
    config.redis.urls = cluster.urls().into_iter().map(Into::into).collect();
    Findings::of(&config).await.assert_only(&[]);
    let node = &cluster.nodes[cluster.primaries(0).await[1]];
    let () = node.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]).await;
    let findings = Findings::of(&config).await;
    findings.assert_warning("redis", &["maxmemory-policy is allkeys-lfu", &node.addr()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_without_redis_in_common_are_a_warning() {
    let database = healthy(PostgresServer::shared().await).await;
    let mut config = as_reader(&database);
    config.rate_limit.replicas = 2;
    config.upstream.pool_size = 4;
    let findings = Findings::of(&config).await;
    findings.assert_warning("configuration", &["2 replicas have no Redis", "redis.url"]);
    findings.assert_only(&["configuration"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_differs_is_a_warning() {
    need_own_servers!();
    let (clock, env) = (FakeClock::new(0), Vec::new());
    let options = PostgresOptions { env, ..PostgresOptions::default() };
    let server =
        PostgresServer::start(PostgresOptions { env: clock.env().into(), ..options }).await;
    let database = healthy(&server).await;
    Findings::of(&as_reader(&database)).await.assert_only(&[]);
    clock.set_ahead(-100);
    let findings = Findings::of(&as_reader(&database)).await;
    findings.assert_warning("clocks", &["the database", "s behind that of this machine", "NTP"]);
}
