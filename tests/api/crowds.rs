//! Crowds: many uncached requests at once, or more connections than allowed, do not make a store
//! count as unavailable. No breaker opens, and no limit is exceeded.

use std::time::Duration;

use futures_util::future::join_all;

use crate::support::binary::ReplicaProcess;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, Response, sample};
use crate::support::traffic::uncached_path;

/// The delay of each reply from Redis; with two connections, most of a crowd gets none in time.
const REDIS_DELAY: Duration = Duration::from_millis(300);

/// The log line of a breaker that opens.
const BREAKER_OPENED: &[&str] = &["store unavailable; continuing without it"];

/// Nothing is shed or times out: the crowd meets the bounds of the stores themselves.
async fn long_timeouts(env: &[(&str, &str)]) -> ReplicaProcess {
    let timeouts = [
        ("GENE_REGISTRY__UPSTREAM__QUERY_MS", "10000"),
        ("GENE_REGISTRY__UPSTREAM__WAIT_MS", "10000"),
        ("GENE_REGISTRY__UPSTREAM__DEADLINE_MS", "20000"),
        ("GENE_REGISTRY__SERVER__REQUEST_TIMEOUT_MS", "60000"),
        ("GENE_REGISTRY__SHED__QUEUE", "1000"),
        ("GENE_REGISTRY__SHED__WAIT_MS", "10000"),
    ];
    ReplicaProcess::start(&[env, &timeouts].concat()).await
}

async fn crowd(process: &ReplicaProcess, key: &str, count: usize) -> Vec<Response> {
    join_all((0..count).map(|_| async { process.replica.get(&uncached_path(), Some(key)).await }))
        .await
}

fn with_status(responses: &[Response], status: u16) -> usize {
    responses.iter().filter(|response| response.status == status).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_cold_requests_opens_no_breaker_and_overshoots_no_limit() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let database = sample(postgres).await;
    let (warm, key) = (database.new_key(1_000_000).await, database.new_key(280).await);
    let (database_url, prefix) = (database.url_as(READER), RedisServer::new_prefix());
    let proxy = FaultProxy::start(redis.addr()).await;
    let redis_url = proxy.url(&redis.url());
    let process = long_timeouts(&[
        ("DATABASE_URL", &database_url),
        ("REDIS_URL", &redis_url),
        ("GENE_REGISTRY__REDIS__PREFIX", &prefix),
        ("GENE_REGISTRY__REDIS__POOL_SIZE", "2"),
        ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "6000"),
    ])
    .await;
    assert_eq!(process.replica.get(&uncached_path(), Some(&warm)).await.status, 200);

    proxy.set(Mode::Delay(REDIS_DELAY)).await;
    let responses = crowd(&process, &key, 600).await;

    assert_eq!(with_status(&responses, 200), 280);
    assert_eq!(with_status(&responses, 429), 320);
    assert_eq!(process.lines_with(BREAKER_OPENED), 0, "{}", process.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_postgres_opens_no_breaker() {
    need_own_servers!();
    // Three of them are the superuser's, one polls the change log.
    let options = PostgresOptions { max_connections: 8, ..Default::default() };
    let postgres = PostgresServer::start(options).await;
    let database = sample(&postgres).await;
    let key = database.new_key(1_000_000).await;
    let database_url = database.url_as(READER);
    let process = long_timeouts(&[("DATABASE_URL", &database_url)]).await;

    for _ in 0..3 {
        let responses = crowd(&process, &key, 100).await;
        assert_eq!(with_status(&responses, 200), 100, "{}", process.log());
    }

    let refused = |line: &&str| line.contains("too many") || line.contains("remaining connection");
    assert!(postgres.log().lines().any(|line| refused(&line)), "the server was never full");
    assert_eq!(process.lines_with(BREAKER_OPENED), 0, "{}", process.log());
}
