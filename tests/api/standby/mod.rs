//! More than one Postgres: several hosts in a URL, fail-over, reads from standbys.

mod as_primary;
mod fail_over;
mod hosts;
mod lag;
mod loss;
mod new_replica;
mod shown;

use std::time::Duration;

use gene_registry::config::Config;
use tokio::time::timeout;

use crate::currency::always_fresh;
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, Replica};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(20);

/// `count` replicas that read from `standbys`. Their cache entries stay fresh longer than any test.
async fn fleet<'a>(
    count: u32,
    primary: &'a PostgresServer,
    standbys: &[&PostgresServer],
    change: impl FnOnce(&mut Config, &Database<'_>),
) -> Fleet<'a> {
    let redis = RedisServer::shared().await;
    let mut fleet = Fleet::start_with(0, primary, redis, always_fresh).await;
    for standby in standbys {
        primary.wait_for_replay(standby).await;
        fleet.config.upstream.read_urls.push(standby.url(fleet.database.name(), READER).into());
    }
    // The lag of a loaded machine must not matter here.
    fleet.config.upstream.max_lag_ms = 60_000;
    change(&mut fleet.config, &fleet.database);
    fleet.grow(count).await;
    for replica in &fleet.replicas {
        for number in 1..=standbys.len() {
            wait_for_use(replica, number, true).await;
        }
    }
    fleet
}

/// Disables all caches: each request is read from the database.
fn without_caches(config: &mut Config) {
    config.redis.url = None;
    config.cache.not_found_s = 0;
    for ages in [&mut config.cache.search, &mut config.cache.phenotype, &mut config.cache.insights]
    {
        (ages.fresh_s, ages.stale_s, ages.if_error_s) = (0, 0, 0);
    }
}

/// Waits until a standby is read, or no longer read.
async fn wait_for_use(replica: &Replica, number: usize, in_use: bool) {
    let series = format!("gene_registry_standby_in_use{{standby=\"{number}\"}}");
    let expected = Some(if in_use { 1.0 } else { 0.0 });
    let known = async || replica.metric(&series).await == expected;
    if timeout(TIMEOUT, eventually(2 * TIMEOUT, "the metric shows it", known)).await.is_err() {
        let metrics = replica.ops("/metrics").await.text;
        let of_standbys = metrics.lines().filter(|line| {
            !line.starts_with('#')
                && ["standby", "histories", "readable"].iter().any(|word| line.contains(word))
        });
        let of_standbys: Vec<_> = of_standbys.collect();
        panic!("standby {number} in use: not {in_use} in {TIMEOUT:?}: {of_standbys:#?}");
    }
}

/// The number of reads from the first standby with this result.
async fn reads(replica: &Replica, result: &str) -> f64 {
    let labels = format!("{{standby=\"1\",result=\"{result}\"}}");
    replica.metric(&format!("gene_registry_standby_reads_total{labels}")).await.unwrap()
}
