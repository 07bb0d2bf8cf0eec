//! Results are published in Redis after the response.

use super::{TIMEOUT, assert_ok, wait_until_ready, waiting_statements};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_response_does_not_wait_for_its_publication() {
    need_own_servers!();
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::start(&[]).await);
    let fleet = Fleet::start_with(1, postgres, &redis, |config| {
        super::long_timeouts(config);
        config.redis.timeout_ms = 60_000;
    })
    .await;
    wait_until_ready(&fleet.replicas).await;
    let (key, path) = (fleet.database.new_key(1_000_000).await, uncached_path());

    let lock = fleet.database.lock_genes().await;
    let pause = async {
        eventually(TIMEOUT, "it is read", || async { waiting_statements(&fleet).await == 1 }).await;
        let () = redis.command(&["CLIENT", "PAUSE", "600000", "WRITE"]).await;
        lock.batch_execute("rollback").await.unwrap();
    };
    let (response, ()) = tokio::join!(fleet.replicas[0].get(&path, Some(&key)), pause);
    assert_ok(&response);
    let entries = format!("{}:entry", fleet.prefix);
    assert_eq!(redis.keys(&entries).await, Vec::<String>::new(), "it is not published yet");

    let () = redis.command(&["CLIENT", "UNPAUSE"]).await;
    redis.published(&fleet.prefix).await;
    assert_eq!(redis.keys(&entries).await.len(), 1);
}
