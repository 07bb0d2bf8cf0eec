//! A primary with a replica, and three sentinels that watch them.

use std::time::Duration;

use super::process::{Launch, Process, find_program};
use super::redis::RedisServer;
use super::wait::{eventually, until};
use super::{free_port, scratch_folder};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The sentinels' name for the primary.
pub(crate) const SERVICE: &str = "registry";

/// The servers and their sentinels. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct SentinelRedis {
    /// The initial primary, and its replica.
    pub(crate) servers: [RedisServer; 2],
    sentinels: Vec<Sentinel>,
}

#[derive(Debug)]
struct Sentinel {
    port: u16,
    process: Process,
}

impl SentinelRedis {
    /// The sentinels require `password`, if there is one.
    pub(crate) async fn start(password: Option<&str>) -> Self {
        let primary = RedisServer::start(&[]).await;
        let port = primary.port().to_string();
        let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &port]).await;
        eventually(START_TIMEOUT, "the replica has caught up", || async {
            let info: String = replica.command(&["INFO", "replication"]).await;
            info.contains("master_link_status:up")
        })
        .await;
        let sentinels = (0..3).map(|_| sentinel(primary.port(), password)).collect();
        let watched = Self { servers: [primary, replica], sentinels };
        for sentinel in &watched.sentinels {
            until(START_TIMEOUT, "the sentinels know each other and the replica", || async {
                assert!(sentinel.process.is_running(), "{}", sentinel.process.report());
                let _ready: String = watched.ask(sentinel, password, "CKQUORUM").await?;
                let known: Vec<redis::Value> = watched.ask(sentinel, password, "SENTINELS").await?;
                let replicas: Vec<redis::Value> =
                    watched.ask(sentinel, password, "REPLICAS").await?;
                (known.len() == 2 && replicas.len() == 1).then_some(())
            })
            .await;
        }
        watched
    }

    /// `redis://…` of each sentinel, with `login` as `user:password@`, or nothing.
    pub(crate) fn urls(&self, login: &str) -> Vec<String> {
        let url = |one: &Sentinel| format!("redis://{login}127.0.0.1:{}", one.port);
        self.sentinels.iter().map(url).collect()
    }

    /// Requests a fail-over although nothing has failed.
    pub(crate) async fn fail_over(&self) {
        let asked: Option<String> = self.ask(&self.sentinels[0], None, "FAILOVER").await;
        assert!(asked.is_some());
    }

    /// Waits until the second server is the primary.
    pub(crate) async fn promoted(&self) {
        eventually(START_TIMEOUT, "the replica is promoted", || async {
            // Sentinels close the connections of the server that they promote.
            let asked = self.servers[1].try_command::<String>(&["INFO", "replication"]);
            asked.await.is_ok_and(|info| info.contains("role:master"))
        })
        .await;
    }

    async fn ask<T: redis::FromRedisValue>(
        &self,
        sentinel: &Sentinel,
        password: Option<&str>,
        what: &str,
    ) -> Option<T> {
        let login = password.map(|password| format!(":{password}@")).unwrap_or_default();
        let url = format!("redis://{login}127.0.0.1:{}", sentinel.port);
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.ok()?;
        redis::cmd("SENTINEL").arg(what).arg(SERVICE).query_async(&mut connection).await.ok()
    }
}

fn sentinel(primary: u16, password: Option<&str>) -> Sentinel {
    let (folder, port) = (scratch_folder("sentinel"), free_port());
    let file = folder.join("sentinel.conf");
    let own = password
        .map(|password| format!("requirepass {password}\nsentinel sentinel-pass {password}\n"));
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\n{}\
         sentinel monitor {SERVICE} 127.0.0.1 {primary} 2\n\
         sentinel down-after-milliseconds {SERVICE} 1000\n\
         sentinel failover-timeout {SERVICE} 5000\n",
        folder.display(),
        own.unwrap_or_default(),
    );
    std::fs::write(&file, text).unwrap();
    let process =
        Launch::new("sentinel", find_program("redis-server")).arg(&file).arg("--sentinel").start();
    Sentinel { port, process }
}
