//! Both stores are stopped, stalled and restarted at random under mixed traffic. Nothing crashes or
//! leaks, every response is an allowed one, and all is normal soon after the end.
//!
//! `CHAOS_SEED` repeats the faults and requests of a run (their timing varies); `CHAOS_SECONDS`
//! sets its length, ninety seconds by default.

mod faults;
mod traffic;

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use self::traffic::{RegistryFacts, StatusCounts};
use crate::support::binary::ReplicaProcess;
use crate::support::database::Database;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::random::Random;
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, Replica, sample};
use crate::support::traffic::{routes, uncached_path};
use crate::support::wait::eventually;

/// All is normal within this time after the last fault.
const RECOVERY_LIMIT: Duration = Duration::from_secs(5);

/// Time for resources to be released: idle connections are closed after ten seconds.
const RELEASE_TIME: Duration = Duration::from_secs(30);

/// Concurrent clients of each replica.
const STREAMS: u64 = 5;

/// A small local cache, so that a leak shows.
const CACHE_BYTES: &str = "4194304";

/// How much more a replica may hold at the end than at the beginning.
const MAX_MEMORY_GROWTH: f64 = 48.0 * 1024.0 * 1024.0;
const MAX_DESCRIPTOR_GROWTH: f64 = 40.0;
const MAX_TASK_GROWTH: f64 = 40.0;

fn number_from_environment(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

/// Resources that must not leak.
#[derive(Debug, Clone, Copy)]
struct ResourceUsage {
    memory: f64,
    descriptors: f64,
    tasks: f64,
}

impl ResourceUsage {
    async fn of(replica: &Replica) -> Self {
        let metric = async |name: &str| replica.metric(name).await.unwrap();
        Self {
            memory: metric("process_resident_memory_bytes").await,
            descriptors: metric("process_open_fds").await,
            tasks: metric("gene_registry_tasks").await,
        }
    }

    fn is_within_growth(self, before: Self) -> bool {
        self.memory < before.memory + MAX_MEMORY_GROWTH
            && self.descriptors < before.descriptors + MAX_DESCRIPTOR_GROWTH
            && self.tasks < before.tasks + MAX_TASK_GROWTH
    }
}

/// Keys, and responses from before the first fault, which each replica has cached then.
async fn registry_facts(database: &Database<'_>, fleet: &[ReplicaProcess]) -> RegistryFacts {
    let (key, narrow) = (database.new_key(1_000_000_000).await, database.new_key(30).await);
    let revoked = database.new_key(100).await;
    let owner = database.connect().await;
    let sql = "update registry.api_key set revoked_at = now() where prefix = $1";
    assert_eq!(owner.execute(sql, &[&&revoked[..11]]).await.unwrap(), 1);
    let mut paths = routes(database).await[..2].to_vec();
    for row in owner.query("select id::text from registry_read.gene limit 20", &[]).await.unwrap() {
        paths.push(format!("/genes/{}/phenotype", row.get::<_, String>(0)));
    }
    for offset in [0, 20, 40, 60] {
        paths.push(format!("/genes?sort=downloads&offset={offset}"));
    }
    let mut known = Vec::new();
    for process in fleet {
        known.clear();
        for path in &paths {
            let response = process.replica.get(path, Some(&key)).await;
            assert_eq!(response.status, 200, "{response:?}");
            known.push((path.clone(), response.text));
        }
        assert_eq!(process.replica.get("/genes", Some(&narrow)).await.status, 200);
        assert_eq!(process.replica.get("/genes", Some(&revoked)).await.status, 401);
    }
    RegistryFacts { key, narrow, revoked, known }
}

/// Probes and metrics work whatever is broken.
async fn probe(replica: &Replica, end: Instant) -> Result<StatusCounts, String> {
    while Instant::now() < end {
        for path in ["/livez", "/readyz", "/metrics"] {
            let response = replica.ops(path).await;
            if response.status != 200 {
                return Err(format!("{path}: {response:?}"));
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(StatusCounts::new())
}

/// Every layer works: reads, counting, shared cache.
async fn is_normal(replica: &Replica, key: &str) -> bool {
    let ready = replica.ops("/readyz").await.json();
    let stores = ["upstream", "redis_read", "redis_write"].iter().all(|name| ready[*name] == "up");
    let shared = replica.metric(r#"gene_registry_limit_policy{state="shared"}"#).await;
    let response = replica.get(&uncached_path(), Some(key)).await;
    let age = replica.metric("gene_registry_change_log_age_seconds").await.unwrap();
    stores && shared == Some(1.0) && response.status == 200 && age < 3.0
}

#[tokio::test(flavor = "multi_thread")]
async fn under_random_faults_responses_are_valid_and_resources_stay_bounded() {
    need_own_servers!();
    let seed = number_from_environment("CHAOS_SEED").unwrap_or_else(|| getrandom::u64().unwrap());
    let lasts = Duration::from_secs(number_from_environment("CHAOS_SECONDS").unwrap_or(90));
    // Shown if the test fails.
    eprintln!("CHAOS_SEED={seed} CHAOS_SECONDS={}", lasts.as_secs());
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let redis = RedisServer::start(&[]).await;
    let database = sample(&postgres).await;
    let (database_url, redis_url) = (database.url_as(READER), redis.url());
    let env = [
        ("DATABASE_URL", database_url.as_str()),
        ("REDIS_URL", redis_url.as_str()),
        ("GENE_REGISTRY__RATE_LIMIT__REPLICAS", "3"),
        ("GENE_REGISTRY__CACHE__LOCAL_MAX_BYTES", CACHE_BYTES),
        ("GENE_REGISTRY__LOG__LEVEL", "warn"),
    ];
    let fleet = [
        ReplicaProcess::start(&env).await,
        ReplicaProcess::start(&env).await,
        ReplicaProcess::start(&env).await,
    ];
    let registry_facts = registry_facts(&database, &fleet).await;
    let start = Instant::now();

    // A tenth of the duration without faults, as the reference for the size of a busy replica.
    let streams = |end: Instant, round: u64| {
        fleet
            .iter()
            .enumerate()
            .flat_map(|(place, process)| {
                (0..STREAMS).map(move |number| (place as u64 * STREAMS + number, process))
            })
            .map(|(number, process)| {
                let random = Random::new(seed, 100 * round + number);
                traffic::stream(process.replica.base.clone(), registry_facts.clone(), random, end)
            })
            .collect::<Vec<_>>()
    };
    for result in join_all(streams(start + lasts / 10, 1)).await {
        result.unwrap_or_else(|error| panic!("CHAOS_SEED={seed}, before any fault: {error}"));
    }
    let before = join_all(fleet.iter().map(|process| ResourceUsage::of(&process.replica))).await;

    let end = start + lasts;
    let (responses, probes, of_redis, of_postgres) = tokio::join!(
        join_all(streams(end, 2).into_iter().map(tokio::spawn)),
        join_all(fleet.iter().map(|process| probe(&process.replica, end))),
        faults::inject_faults(&redis, Random::new(seed, 1), end),
        faults::inject_faults(&postgres, Random::new(seed, 2), end),
    );

    for process in &fleet {
        eventually(RECOVERY_LIMIT, "the replica serves normally", || {
            is_normal(&process.replica, &registry_facts.key)
        })
        .await;
    }
    let mut counts = StatusCounts::new();
    for result in responses.into_iter().map(Result::unwrap).chain(probes) {
        let some = result.unwrap_or_else(|error| panic!("CHAOS_SEED={seed}: {error}"));
        some.into_iter().for_each(|(kind, count)| *counts.entry(kind).or_default() += count);
    }
    eprintln!("chaos: {of_redis} faults of Redis, {of_postgres} of Postgres; {counts:?}");
    assert!(of_redis > 3 && of_postgres > 3, "{of_redis} and {of_postgres} faults");
    for (process, before) in fleet.iter().zip(before) {
        eventually(RELEASE_TIME, "the replica has released its resources", || async {
            let now = ResourceUsage::of(&process.replica).await;
            eprintln!("chaos: {before:?}, now {now:?}");
            now.is_within_growth(before)
        })
        .await;
        assert_eq!(process.lines_with(&["panicked"]), 0, "{}", process.log());
    }
}
