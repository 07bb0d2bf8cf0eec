//! Redis stopped, lost repeatedly, nearly full, or without a right.

use std::convert::Infallible;

use super::{TIMEOUT, Watch, instance, uncached_requests};
use crate::support::binary::ReplicaProcess;
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, Replica, sample};
use crate::support::wait::eventually;

pub(super) const ALERTS: [&str; 5] = [
    "GeneRegistryBreakersFlap",
    "GeneRegistryLimitsRefuse",
    "GeneRegistryRedisMemory",
    "GeneRegistryRedisUnavailable",
    "GeneRegistrySharedWritesFail",
];

/// Of a Redis that is nearly full.
const MAX_MEMORY: usize = 64 << 20;

/// Between the ratio that the alert wants and the one from which no entry is new.
const FULL_RATIO: f64 = 0.67;

pub(super) async fn fire() {
    let database = sample(PostgresServer::shared().await).await;
    let (url, key) = (database.url_as(READER), database.new_key(1_000_000).await);
    let stopped = RedisServer::start(&[]).await;
    let full = RedisServer::start(&["--maxmemory", &MAX_MEMORY.to_string()]).await;
    let without_set = RedisServer::start(&[]).await;
    let () = without_set.command(&["ACL", "SETUSER", "default", "-set"]).await;
    let unstable = RedisServer::start(&[]).await;
    let proxy = FaultProxy::start(unstable.addr()).await;
    let start = async |redis: &str, without_redis: &str| {
        let env = [
            ("DATABASE_URL", url.as_str()),
            ("REDIS_URL", redis),
            ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "1000"),
            ("GENE_REGISTRY__RATE_LIMIT__WITHOUT_REDIS", without_redis),
        ];
        ReplicaProcess::start(&env).await
    };
    let stopped_replica = start(&stopped.url(), "local").await;
    let refusing = start(&stopped.url(), "refuse").await;
    let nearly_full = start(&full.url(), "local").await;
    let rejected = start(&without_set.url(), "local").await;
    let flapping = start(&proxy.url(&unstable.url()), "local").await;
    let all = [&stopped_replica, &refusing, &nearly_full, &rejected, &flapping]
        .map(|process| &process.replica);
    let watch = Watch::start(&ALERTS, &all).await;
    let _requests = all.map(|replica| uncached_requests(replica, &key, 1, 4));

    fill(&full).await;
    watch.fires("GeneRegistrySharedWritesFail").await;

    stopped.kill().await;
    watch.fires_for("GeneRegistryLimitsRefuse", &instance(&refusing.replica)).await;
    watch.fires_for("GeneRegistryRedisUnavailable", &instance(&stopped_replica.replica)).await;
    let instance_of_flapping = instance(&flapping.replica);
    tokio::select! {
        never = flap(&proxy, &flapping.replica) => match never {},
        () = watch.fires_for("GeneRegistryBreakersFlap", &instance_of_flapping) => {}
    }

    watch.fires("GeneRegistryRedisMemory").await;
    watch.assert_complete();
}

/// Fills a Redis with other data, up to [`FULL_RATIO`].
async fn fill(redis: &RedisServer) {
    for number in 0.. {
        let info: String = redis.command(&["INFO", "memory"]).await;
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        if used.trim().parse::<f64>().unwrap() > FULL_RATIO * MAX_MEMORY as f64 {
            return;
        }
        let () = redis.command(&["SETRANGE", &format!("other-{number}"), "500000", "x"]).await;
    }
}

/// Refuses and accepts connections, whenever the replica has noticed the last change.
async fn flap(proxy: &FaultProxy, replica: &Replica) -> Infallible {
    loop {
        for (mode, in_use) in [(Mode::Refuse, 0.0), (Mode::Pass, 1.0)] {
            proxy.set(mode).await;
            eventually(TIMEOUT, "the replica has noticed", async || {
                let series = "gene_registry_redis_in_use{side=\"write\"}";
                replica.metric(series).await == Some(in_use)
            })
            .await;
        }
    }
}
