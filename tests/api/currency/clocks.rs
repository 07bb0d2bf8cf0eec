//! Wall clocks that are set while everything runs: the database's, and a replica's own.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    DOMAIN, REPLICAS, VISIBLE_WITHIN, always_fresh, assert_change_visible, genes_of, is_hit,
    paths_of, responses, uncached_replica, wait_until_cached,
};
use crate::support::binary::ReplicaProcess;
use crate::support::database::Database;
use crate::support::fake_clock::FakeClock;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, Replica, sample};
use crate::support::traffic::routes;
use crate::support::wait::{eventually, visible_within};

const TIMEOUT: Duration = Duration::from_secs(20);

const HOUR: i64 = 3_600;
const YEAR: i64 = 365 * 24 * HOUR;

async fn server(clock: &FakeClock) -> PostgresServer {
    PostgresServer::start(PostgresOptions { env: clock.env().into(), ..PostgresOptions::default() })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_visible_and_cached_when_the_databases_clock_is_set() {
    need_own_servers!();
    let clock = FakeClock::new(0);
    let (postgres, redis) = (server(&clock).await, RedisServer::shared().await);
    let fleet = Fleet::start_with(REPLICAS, &postgres, redis, always_fresh).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let genes = genes_of(&client, DOMAIN).await;
    let (paths, uncached) = (paths_of(&genes), uncached_replica(&fleet).await);
    wait_until_cached(&fleet.replicas, &key, &paths).await;

    for ahead in [-60, 0, -2 * HOUR, 2 * HOUR, 0] {
        clock.set_ahead(ahead);
        let sql = "update registry.gene set name = $1, description = $1 where id = $2::text::uuid";
        client.execute(sql, &[&format!("named at {ahead}"), &genes[0]]).await.unwrap();
        let what = format!("the clock is {ahead} s ahead");
        assert_change_visible(&fleet.replicas, &key, &paths, &uncached, &what).await;
        let visible = Instant::now();
        wait_until_cached(&fleet.replicas, &key, &paths).await;
        for replica in &fleet.replicas {
            let hit = replica.get(&format!("/genes/{}/phenotype", genes[0]), Some(&key)).await;
            let age: u64 = hit.header("age").parse().unwrap();
            // It was read within the bound for changes, before it was visible everywhere.
            let oldest = visible.elapsed() + VISIBLE_WITHIN + Duration::from_secs(10);
            assert!(is_hit(&hit) && age <= oldest.as_secs(), "{what}: {hit:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_a_year_ahead_is_read_again_once_the_clock_is_right() {
    need_own_servers!();
    let clock = FakeClock::new(YEAR);
    let (postgres, redis) = (server(&clock).await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(2, &postgres, redis, |config| {
        for ages in
            [&mut config.cache.search, &mut config.cache.phenotype, &mut config.cache.insights]
        {
            (ages.fresh_s, ages.stale_s) = (2, 0);
        }
    })
    .await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let genes = genes_of(&client, DOMAIN).await;
    let paths = paths_of(&genes);
    for replica in &fleet.replicas {
        responses(replica, &key, &paths).await;
    }

    clock.set_ahead(0);
    // Nothing of it is in the log.
    let sql = "update registry.gene
        set fitness_score = fitness_score + 1, reputation_score = 0.5, downloads = downloads + 7";
    client.batch_execute(sql).await.unwrap();
    let expected = responses(&uncached_replica(&fleet).await, &key, &paths).await;

    // The new one has only Redis.
    fleet.grow(1).await;
    for replica in &fleet.replicas {
        eventually(TIMEOUT, "the new scores are visible", || async {
            responses(replica, &key, &paths).await == expected
        })
        .await;
    }
}

/// What others share meanwhile looks two hours old to it.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_database_a_backward_step_of_its_clock_makes_no_cached_response_an_error() {
    need_own_servers!();
    let clock = FakeClock::new(0);
    let (postgres, redis) = (server(&clock).await, RedisServer::shared().await);
    let proxy = FaultProxy::start(postgres.addr()).await;
    let mut fleet = Fleet::start_with(1, &postgres, redis, |config| {
        let ages = &mut config.cache.search;
        (ages.fresh_s, ages.stale_s, ages.if_error_s) = (1, 0, 600);
    })
    .await;
    fleet.config.upstream.url = Some(proxy.url(&fleet.database.url_as(READER)).into());
    fleet.grow(1).await;
    let [well, cut_off] = &fleet.replicas[..] else { unreachable!("two replicas") };
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let path = format!("/genes?domain={DOMAIN}");
    for replica in [well, cut_off] {
        assert_eq!(replica.get(&path, Some(&key)).await.status, 200);
    }

    proxy.set(Mode::Refuse).await;
    eventually(TIMEOUT, "the database is unavailable", || async {
        cut_off.metric("gene_registry_upstream_in_use").await == Some(0.0)
    })
    .await;
    clock.set_ahead(-2 * HOUR);
    let sql = "update registry.gene set name = 'renamed' where domain = $1";
    assert!(client.execute(sql, &[&DOMAIN]).await.unwrap() > 0);
    eventually(TIMEOUT, "the change is visible", || async {
        well.get(&path, Some(&key)).await.text.contains("renamed")
    })
    .await;

    let until = Instant::now() + 2 * VISIBLE_WITHIN;
    while Instant::now() < until {
        let response = cut_off.get(&path, Some(&key)).await;
        assert_eq!(response.status, 200, "{response:?}");
    }
}

/// The log is loaded from a day before on: by the clock, every later read is older than that.
#[tokio::test(flavor = "multi_thread")]
async fn responses_are_cached_after_the_databases_clock_has_stepped_back_by_days() {
    need_own_servers!();
    let clock = FakeClock::new(0);
    let (postgres, redis) = (server(&clock).await, RedisServer::shared().await);
    let fleet = Fleet::start_with(1, &postgres, redis, always_fresh).await;
    let key = fleet.database.new_key(1_000_000).await;
    let path = format!("/genes?domain={DOMAIN}");
    let replica = &fleet.replicas[0];
    assert_eq!(replica.get(&path, Some(&key)).await.status, 200);
    clock.set_ahead(-48 * HOUR);
    let sql = "update registry.gene set name = 'renamed' where domain = $1";
    fleet.database.connect().await.execute(sql, &[&DOMAIN]).await.unwrap();
    eventually(TIMEOUT, "the change is visible", || async {
        replica.get(&path, Some(&key)).await.text.contains("renamed")
    })
    .await;
    eventually(TIMEOUT, "responses come from the cache", || async {
        replica.get(&path, Some(&key)).await.header("cache-status").contains("; hit")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_expires_by_the_databases_clock_as_it_is_now() {
    need_own_servers!();
    let clock = FakeClock::new(0);
    let (postgres, redis) = (server(&clock).await, RedisServer::shared().await);
    let fleet = Fleet::start_with(1, &postgres, redis, always_fresh).await;
    let expires = gene_registry::registry::Timestamp::now() + jiff::SignedDuration::from_mins(30);
    let key = fleet.database.new_key_with(|key| key.spec.expires_at = Some(expires)).await;
    for (ahead, status) in [(0, 200), (HOUR, 401), (0, 200), (-HOUR, 200), (HOUR, 401)] {
        clock.set_ahead(ahead);
        let what = format!("{status} at {ahead} s ahead");
        visible_within(Instant::now(), VISIBLE_WITHIN, &what, || async {
            let found = fleet.replicas[0].get("/genes", Some(&key)).await;
            if found.status == status { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }
}

/// A replica whose own clock is set, with a proxy to its database.
struct ReplicaWithClock {
    clock: FakeClock,
    proxy: FaultProxy,
    process: ReplicaProcess,
}

impl ReplicaWithClock {
    async fn start(database: &Database<'_>, postgres: &PostgresServer) -> Self {
        let (clock, proxy) = (FakeClock::new(0), FaultProxy::start(postgres.addr()).await);
        let (database_url, redis_url) =
            (proxy.url(&database.url_as(READER)), RedisServer::shared().await.url());
        let (prefix, of_clock) = (RedisServer::new_prefix(), clock.env());
        let env = [
            ("DATABASE_URL", database_url.as_str()),
            ("REDIS_URL", &redis_url),
            ("GENE_REGISTRY__REDIS__PREFIX", &prefix),
            ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "10000"),
            // One is stale soon, one is not.
            ("GENE_REGISTRY__CACHE__SEARCH__FRESH_S", "1"),
            ("GENE_REGISTRY__CACHE__SEARCH__STALE_S", "0"),
            ("GENE_REGISTRY__CACHE__PHENOTYPE__FRESH_S", "3600"),
        ];
        let of_clock = of_clock.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let env: Vec<_> = env.into_iter().chain(of_clock).collect();
        Self { clock, proxy, process: ReplicaProcess::start(&env).await }
    }

    /// For some seconds, each response must be good and tell its age; `path` was read between
    /// these times.
    async fn assert_ages(&self, key: &str, path: &str, read: [Instant; 2], what: &str) {
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            let youngest = read[1].elapsed().as_secs();
            let response = self.replica().get(path, Some(key)).await;
            assert_eq!(response.status, 200, "{what}: {path}: {response:?}");
            let age: u64 = response.header("age").parse().unwrap();
            let oldest = read[0].elapsed().as_secs() + 1;
            let is_right = (youngest.saturating_sub(1)..=oldest).contains(&age);
            assert!(is_right, "{what}: {path}: {age} for {youngest} to {oldest}: {response:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn replica(&self) -> &Replica {
        &self.process.replica
    }

    /// Reads a path, which is in the replica's cache then.
    async fn read(&self, key: &str, path: &str) -> [Instant; 2] {
        let begun = Instant::now();
        let response = self.replica().get(path, Some(key)).await;
        assert_eq!(response.status, 200, "{response:?}");
        [begun, Instant::now()]
    }

    async fn assert_right_after_a_step(&self, key: &str, [search, phenotype]: [&str; 2], to: i64) {
        let read = self.read(key, phenotype).await;
        self.clock.set_ahead(to);
        let what = format!("{to} s ahead, with the database");
        self.assert_ages(key, phenotype, read, &what).await;
        self.clock.set_ahead(0);

        // Long enough after the last step for its clock to have been compared with the database's.
        self.assert_ages(key, phenotype, read, "right again").await;
        let read_search = self.read(key, search).await;
        self.proxy.set(Mode::Refuse).await;
        eventually(TIMEOUT, "the database is known to be unavailable", || async {
            self.replica().ops("/readyz").await.json()["upstream"] == "down"
        })
        .await;
        self.clock.set_ahead(to);
        let what = format!("{to} s ahead, without the database");
        tokio::join!(
            self.assert_ages(key, phenotype, read, &what),
            self.assert_ages(key, search, read_search, &what),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ages_are_right_and_nothing_fails_when_a_replicas_own_clock_is_set() {
    let postgres = PostgresServer::shared().await;
    let database = sample(postgres).await;
    let key = database.new_key(1_000_000).await;
    let [search, phenotype, _] = routes(&database).await;
    join_all([2 * HOUR, -2 * HOUR, 25 * HOUR, -25 * HOUR].map(|to| {
        let (database, key, paths) = (&database, &key, [search.as_str(), phenotype.as_str()]);
        async move {
            let replica = ReplicaWithClock::start(database, postgres).await;
            replica.assert_right_after_a_step(key, paths, to).await;
        }
    }))
    .await;
}
