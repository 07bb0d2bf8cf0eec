//! Each fault, made for real, is found at the replica that has it.

use gene_registry::default_schema::generate;
use gene_registry::keys::{ApiKey, insert_key};

use super::{LIMIT, TIMEOUT, arguments, assert_broken, checked, key_file, patient};
use crate::commands::{gene_registry, run};
use crate::support::binary::ReplicaProcess;
use crate::support::database::READER;
use crate::support::fake_clock::FakeClock;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer, SUPERUSER, connect};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica, load, migrated, new_key};
use crate::support::wait::{eventually, until};

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

    let unknown = ["--url=http://gene-registry.invalid".to_owned(), "--each-address".to_owned()];
    let unknown = run(gene_registry(words.iter().chain(&unknown))).await;
    assert_broken(&unknown, "responds", None, "http://gene-registry.invalid: ");
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
    let other = migrated(postgres).await;
    load(&other.url(), generate::genes(20, 1).collect()).await;
    let key_file = key_file(&fleet, LIMIT).await;
    let key: ApiKey = std::fs::read_to_string(&key_file).unwrap().trim().parse().unwrap();
    let mut new = new_key();
    new.spec.rate_limit_per_minute = LIMIT;
    insert_key(&other.connect().await, &key, &new).await.unwrap();
    let mut config = fleet.config.clone();
    config.upstream.url = Some(other.url_as(READER).into());
    let stray = Replica::start(&config).await;
    let replicas: Vec<_> = fleet.replicas.iter().chain([&stray]).collect();
    let result = run(gene_registry(arguments(&replicas, &key_file)).arg("--once")).await;
    assert_broken(&result, "agreement", Some(&stray), "is another one than elsewhere");
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
    let replicas: Vec<_> = [&stray].into_iter().chain(&fleet.replicas).collect();
    let words = arguments(&replicas, &key_file(&fleet, LIMIT).await);
    let result = run(gene_registry(words).arg("--once")).await;
    let base = stray.base.trim_end_matches("/v1");
    for expected in [
        format!("broken: responds: {base}: status 401"),
        format!("broken: agreement: {base}: does not know the key that others accept"),
        "kept: limit: ".to_owned(),
    ] {
        assert!(result.stdout.contains(&expected), "{expected}: {result:?}");
    }
    assert_eq!(result.code, 1);
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
    assert_broken(&result, "agreement", Some(&stale), "the number of genes is another one");
    drop(stale);
    admin.batch_execute(&format!("drop database {copy} with (force)")).await.unwrap();
}
