//! The read path in front of real servers: single flight, ages, conditional requests, entries in
//! Redis, totals, and what is served while reads are stuck.

mod aborted_requests;
mod ages;
mod breakers;
mod coalescing;
mod cold_fleet;
mod conditional;
mod corrupt_entries;
mod entries;
mod equivalent_requests;
mod exchanges;
mod fail_over;
mod failures;
mod late_joiners;
mod leases;
mod memory;
mod newest_wins;
mod publications;
mod redis_room;
mod releases;
mod shedding;
mod stuck_reads;
mod totals;
mod unknown_keys;

use std::sync::Arc;
use std::time::Duration;

use gene_registry::config::Config;
use gene_registry::upstream::Postgres;
use reqwest::{Client, StatusCode, Version};

use crate::support::postgres::PostgresServer;
use crate::support::probe::Probe;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, Replica, Response};
use crate::support::wait::eventually;

const REPLICAS: u32 = 3;
/// For what happens at once, on a machine that is busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The successful and failed loads of all replicas together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Loads {
    ok: usize,
    failed: usize,
}

async fn loads(replicas: &[Replica]) -> Loads {
    Loads {
        ok: sum(replicas, r#"gene_registry_loads_total{result="ok"}"#).await,
        failed: sum(replicas, r#"gene_registry_loads_total{result="failed"}"#).await,
    }
}

/// A counter's value, summed over replicas.
async fn sum(replicas: &[Replica], series: &str) -> usize {
    let mut sum = 0.0;
    for replica in replicas {
        sum += replica.metric(series).await.unwrap_or(0.0);
    }
    sum as usize
}

/// Timeouts long enough for exact counts on a loaded machine.
fn long_timeouts(config: &mut Config) {
    config.redis.timeout_ms = 5_000;
    config.server.request_timeout_ms = 90_000;
    config.shed.wait_ms = 60_000;
    config.upstream.wait_ms = 10_000;
    config.upstream.connect_ms = 10_000;
    config.upstream.query_ms = 20_000;
    config.upstream.deadline_ms = 60_000;
}

/// Searches stay fresh throughout, also on a slow machine.
fn fresh_searches(config: &mut Config) {
    config.cache.search.fresh_s = 3_000;
}

/// Three replicas on the shared servers. Statements may take as long as the tests hold them.
async fn fleet() -> Fleet<'static> {
    fleet_with(long_timeouts).await
}

async fn fleet_with(change: impl FnOnce(&mut Config)) -> Fleet<'static> {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(0, postgres, redis, change).await;
    let name = fleet.database.name();
    let timeout = format!("alter role {READER} in database {name} set statement_timeout = '60s'");
    fleet.database.connect().await.batch_execute(&timeout).await.unwrap();
    fleet.grow(REPLICAS).await;
    wait_until_ready(&fleet.replicas).await;
    fleet
}

/// Three replicas on the shared servers, with a probe between them and Postgres.
async fn fleet_with_probe(change: impl FnOnce(&mut Config)) -> (Fleet<'static>, Arc<Probe>) {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(0, postgres, redis, |config| {
        long_timeouts(config);
        config.rate_limit.replicas = REPLICAS;
        change(config);
    })
    .await;
    let postgres = Postgres::new(&fleet.config.upstream, "install {id}".to_owned()).unwrap();
    let probe = Probe::new(postgres);
    for _ in 0..REPLICAS {
        fleet.replicas.push(start_replica(&fleet, &probe).await);
    }
    wait_until_ready(&fleet.replicas).await;
    (fleet, probe)
}

/// Another replica behind the probe, with an empty cache.
async fn start_replica(fleet: &Fleet<'_>, probe: &Arc<Probe>) -> Replica {
    Replica::with_upstream(&fleet.config, Arc::clone(probe) as _).await
}

/// Waits until all replicas have loaded the change log, without which shared entries cannot be
/// judged.
async fn wait_until_ready(replicas: &[Replica]) {
    for replica in replicas {
        eventually(TIMEOUT, "the replica is ready", || async {
            replica.ops("/readyz").await.status == StatusCode::OK
        })
        .await;
    }
}

/// The number of the replicas' statements that wait for a lock.
async fn waiting_statements(fleet: &Fleet<'_>) -> i64 {
    let client = fleet.database.connect().await;
    fleet.database.count_connections(&client, "wait_event_type = 'Lock'").await
}

/// Waits until these replicas have admitted this many requests since their start. An admitted
/// request reaches its read without waiting for anything.
async fn wait_for_admitted(fleet: &Fleet<'_>, requests: usize) {
    const ADMITTED: &str = r#"gene_registry_limit_decisions_total{result="admitted"}"#;
    let passed = || async { sum(&fleet.replicas, ADMITTED).await >= requests };
    eventually(3 * TIMEOUT, "the requests have arrived", passed).await;
}

/// How often these replicas have begun to wait for another one's read.
async fn count_waits(fleet: &Fleet<'_>) -> usize {
    sum(&fleet.replicas, "gene_registry_waits_for_other_replica_total").await
}

/// The keys of the cache entries in Redis.
async fn entry_keys(fleet: &Fleet<'_>) -> Vec<String> {
    let redis = RedisServer::shared().await;
    redis.published(&fleet.prefix).await;
    redis.keys(&format!("{}:entry", fleet.prefix)).await
}

/// A client that speaks one version of HTTP only.
fn client(version: Version) -> Client {
    match version {
        Version::HTTP_2 => Client::builder().http2_prior_knowledge().build().unwrap(),
        _ => Client::builder().http1_only().build().unwrap(),
    }
}

/// GET below `/v1` with the given client.
async fn get(client: &Client, replica: &Replica, path: &str, key: &str) -> Response {
    let request = client.get(format!("{}{path}", replica.base)).header("X-API-Key", key);
    Response::of(request.send().await.unwrap()).await
}

#[track_caller]
fn assert_ok(response: &Response) {
    assert_eq!(response.status, StatusCode::OK, "{response:?}");
}

/// The number after `name` in a header such as `hit; ttl=-3; detail=local`.
#[track_caller]
fn number(header: &str, name: &str) -> i64 {
    let start = header.find(&format!("{name}=")).unwrap_or_else(|| panic!("no {name}: {header}"));
    let text = &header[start + name.len() + 1..];
    let end = text.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap()
}
