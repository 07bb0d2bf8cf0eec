//! Each fault, made for real, is found at the replica that has it.

use std::path::Path;

use gene_registry::default_schema::generate;
use gene_registry::keys::{ApiKey, insert_key};

use super::{LIMIT, TIMEOUT, arguments, assert_broken, checked, key_file, patient};
use crate::commands::responder::Responder;
use crate::commands::{gene_registry, run};
use crate::support::binary::ReplicaProcess;
use crate::support::database::{Database, READER};
use crate::support::fake_clock::FakeClock;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer, SUPERUSER, connect};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica, load, migrated, new_key};
use crate::support::wait::{eventually, until};

/// A replica of another registry with the fleet's Redis, where the key in the file has this limit.
async fn stray_that_knows<'p>(
    key_file: &Path,
    limit: u32,
    fleet: &Fleet<'_>,
    postgres: &'p PostgresServer,
) -> (Replica, Database<'p>) {
    let other = migrated(postgres).await;
    load(&other.url(), generate::genes(20, 1).collect()).await;
    let key: ApiKey = std::fs::read_to_string(key_file).unwrap().trim().parse().unwrap();
    let mut new = new_key();
    new.spec.rate_limit_per_minute = limit;
    insert_key(&other.connect().await, &key, &new).await.unwrap();
    let mut config = fleet.config.clone();
    config.upstream.url = Some(other.url_as(READER).into());
    (Replica::start(&config).await, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_of_which_nothing_responds_is_found() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let mut words = arguments(&Vec::from_iter(&fleet.replicas), &key_file(&fleet, LIMIT).await);
    for replica in fleet.replicas.drain(..) {
        replica.shutdown().await;
    }
    words.push("--once".to_owned());
    let none = run(gene_registry(&words)).await;
    assert_broken(&none, "responds", None, "cannot connect to the server");
    assert_eq!(none.stdout.lines().count(), 2, "one for each replica: {none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_cannot_be_resolved_is_a_replica_that_does_not_respond() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let replicas = Vec::from_iter(&fleet.replicas);
    // The first one twice, which is one replica.
    let mut words =
        arguments(&[replicas[0], replicas[0], replicas[1]], &key_file(&fleet, 90).await);
    words.extend(["--once", "--each-address"].map(str::to_owned));
    words.push("--url=http://gene-registry.invalid".to_owned());
    let result = run(gene_registry(words)).await;
    assert_broken(&result, "responds", None, "http://gene-registry.invalid: ");
    assert!(result.stdout.contains("kept: limit: a limit of 90 admitted 90 of "), "{result:?}");
}

/// Such as the page of a login, or a proxy that deletes headers.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_the_api_is_found() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let limits = format!("X-RateLimit-Limit: {LIMIT}\r\nX-RateLimit-Remaining: {}", LIMIT - 1);
    for (head, body, expected) in [
        ("200 OK".to_owned(), "{}", "status 200 without a valid x-ratelimit-limit"),
        (format!("200 OK\r\n{limits}"), "<html>", "status 200 without a JSON object"),
        (
            format!("200 OK\r\n{limits}"),
            r#"{"data":[{"id":"abc"}],"total":1}"#,
            "a search does not list genes with their ids",
        ),
    ] {
        let stranger = Responder::start(&head, body).await;
        let url = format!("--url={}", stranger.url);
        let alone = ["canary", "--once", "--key-file"].map(str::to_owned);
        let key = key_file(&fleet, LIMIT).await.display().to_string();
        if !body.starts_with("{\"data") {
            let alone = run(gene_registry(alone.iter().chain([&key, &url]))).await;
            assert_broken(&alone, "responds", None, &format!("{}: {expected}", stranger.url));
        }
        let mut words = arguments(&Vec::from_iter(&fleet.replicas), &key_file(&fleet, LIMIT).await);
        words.extend([url, "--once".to_owned()]);
        let result = run(gene_registry(words)).await;
        let said = format!("broken: responds: {}: {expected}", stranger.url);
        assert!(result.stdout.contains(&said), "{result:?}");
        let of_others = |line: &str| {
            line.starts_with("broken: ")
                && fleet
                    .replicas
                    .iter()
                    .any(|one| line.contains(&format!(": {}: ", one.base.trim_end_matches("/v1"))))
        };
        assert!(!result.stdout.lines().any(of_others), "{result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_reports_another_limit_is_named() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let key_file = key_file(&fleet, LIMIT).await;
    let (stray, _other) = stray_that_knows(&key_file, 5, &fleet, postgres).await;
    let replicas: Vec<_> = [&stray].into_iter().chain(&fleet.replicas).collect();
    let result = run(gene_registry(arguments(&replicas, &key_file)).arg("--once")).await;
    let base = stray.base.trim_end_matches("/v1");
    let said = format!("broken: limit: {base} reports a limit of 5, and ");
    assert!(result.stdout.contains(&said), "{result:?}");
}

/// Its database is lost before it has read the canary's key.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_that_knows_no_key_does_not_respond() {
    need_own_servers!();
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let fleet = Fleet::start_with(2, &postgres, RedisServer::shared().await, patient).await;
    let mut words = arguments(&Vec::from_iter(&fleet.replicas), &key_file(&fleet, LIMIT).await);
    words.push("--once".to_owned());
    postgres.stop_immediate().await;
    let none = run(gene_registry(&words)).await;
    assert_broken(&none, "responds", None, ": status 502");
}

/// Also one that admits only its share of a limit, wherever it stands among the others: then the sum may be
/// the limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_counts_by_itself_is_found() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(2, postgres, redis, patient).await;
    for replicas in [1, 4] {
        let mut config = fleet.config.clone();
        config.redis.url = None;
        config.rate_limit.replicas = replicas;
        let alone = Replica::start(&config).await;
        let [a, b] = [&fleet.replicas[0], &fleet.replicas[1]];
        for order in [[a, b, &alone], [a, &alone, b]] {
            let words = arguments(&order, &key_file(&fleet, LIMIT).await);
            let result = run(gene_registry(words).arg("--once")).await;
            assert_broken(&result, "limit", None, "replicas count by themselves");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_polls_of_the_change_log_hang_is_found() {
    need_own_servers!();
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let fleet = Fleet::start_with(2, &postgres, RedisServer::shared().await, patient).await;
    let hangs = "create role hanging login in role gene_registry_reader;
        create or replace view registry_read.change as
        select scope, changed_in, changed_at from registry.change where (
            select case when current_user = 'hanging' then pg_sleep(60)::text else '' end) is not null";
    fleet.database.connect().await.batch_execute(hangs).await.unwrap();
    let mut config = fleet.config.clone();
    config.upstream.url = Some(fleet.database.url_as("hanging").into());
    let hanging = Replica::start(&config).await;
    until(TIMEOUT, "it is ready without the log", || async {
        (hanging.ops("/readyz").await.status == 200).then_some(())
    })
    .await;
    let result = checked(&fleet, &[&hanging]).await;
    assert_broken(&result, "change_log", Some(&hanging), "polls of the change log fail or hang");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_clock_is_an_hour_off_is_found() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let clock = FakeClock::new(3_600);
    let (reader, redis_url) = (fleet.database.url_as(READER), redis.url());
    let of_clock = clock.env();
    let of_clock = of_clock.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let stores = [
        ("DATABASE_URL", reader.as_str()),
        ("REDIS_URL", &redis_url),
        ("GENE_REGISTRY__REDIS__PREFIX", &fleet.prefix),
    ];
    let env: Vec<_> = stores.into_iter().chain(of_clock).collect();
    let ahead = ReplicaProcess::start(&env).await;
    let result = checked(&fleet, &[&ahead.replica]).await;
    assert_broken(&result, "clock", Some(&ahead.replica), " s ahead of that of this machine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_of_another_registry_is_found() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let key_file = key_file(&fleet, LIMIT).await;
    let (stray, _other) = stray_that_knows(&key_file, LIMIT, &fleet, postgres).await;
    let replicas: Vec<_> = fleet.replicas.iter().chain([&stray]).collect();
    let result = run(gene_registry(arguments(&replicas, &key_file)).arg("--once")).await;
    let usual = fleet.replicas[0].base.trim_end_matches("/v1");
    assert_broken(&result, "agreement", Some(&stray), usual);
    for expected in ["shows another number of genes than ", "lacks the gene "] {
        assert!(result.stdout.contains(expected), "{expected}: {result:?}");
    }
}

/// Another registry has other keys, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_does_not_know_the_key_is_found() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let other = migrated(postgres).await;
    let mut config = fleet.config.clone();
    config.upstream.url = Some(other.url_as(READER).into());
    let stray = Replica::start(&config).await;
    let base = |replica: &Replica| replica.base.trim_end_matches("/v1").to_owned();
    // Two replicas do not outvote each other.
    for others in [1, 2] {
        let known = &fleet.replicas[..others];
        let replicas: Vec<_> = [&stray].into_iter().chain(known).collect();
        let words = arguments(&replicas, &key_file(&fleet, LIMIT).await);
        let result = run(gene_registry(words).arg("--once")).await;
        let (stray, other) = (base(&stray), base(&known[0]));
        for expected in [
            format!("broken: responds: {stray}: status 401"),
            format!("broken: agreement: {stray}: does not know the key that {other} accepts"),
            "kept: limit: ".to_owned(),
        ] {
            assert!(result.stdout.contains(&expected), "{expected}: {result:?}");
        }
        let broken = result.stdout.lines().filter(|line| line.starts_with("broken: "));
        assert!(broken.clone().all(|line| line.contains(&format!(": {stray}: "))), "{result:?}");
        assert_eq!(result.code, 1);
    }
}

/// As after a backup was restored: it has the same first genes.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_registry_lacks_genes_is_found() {
    need_own_servers!();
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let key_file = key_file(&fleet, LIMIT).await;
    let copy = format!("{}_copy", fleet.database.name());
    let admin = postgres.admin().await;
    postgres.terminate_backends(fleet.database.name()).await;
    let template = format!("create database {copy} template {}", fleet.database.name());
    eventually(TIMEOUT, "the database is copied", || async {
        postgres.terminate_backends(fleet.database.name()).await;
        admin.batch_execute(&template).await.is_ok()
    })
    .await;
    let last = "delete from registry.gene where id = (
        select id from registry.gene where published order by fitness_score, id desc limit 1)";
    connect(&postgres.url(&copy, SUPERUSER)).await.execute(last, &[]).await.unwrap();
    let mut config = fleet.config.clone();
    config.upstream.url = Some(postgres.url(&copy, READER).into());
    let stale = Replica::start(&config).await;
    let replicas: Vec<_> = fleet.replicas.iter().chain([&stale]).collect();
    let result = run(gene_registry(arguments(&replicas, &key_file)).arg("--once")).await;
    assert_broken(&result, "agreement", Some(&stale), "shows another number of genes than ");
    drop(stale);
    admin.batch_execute(&format!("drop database {copy} with (force)")).await.unwrap();
}
