//! `canary`: it finds each kind of broken promise, made for real, and none on a healthy fleet.

mod faults;

use std::path::PathBuf;
use std::time::Duration;

use gene_registry::config::Config;
use gene_registry::keys::ApiKey;
use tokio::time::Instant;

use super::cli_user::CliUser;
use super::{CommandResult, gene_registry, run};
use crate::support::control::{new_token, with_control};
use crate::support::postgres::PostgresServer;
use crate::support::process::{Process, Signal};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica};
use crate::support::scratch_folder;
use crate::support::wait::until;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Of the canary's key: enough for three replicas.
const LIMIT: u32 = 60;

const CHECKS: [&str; 7] =
    ["responds", "ages", "change_log", "clock", "agreement", "limit", "revocation"];

/// A file with a new key for one round, since each round uses up a key's minute.
async fn key_file(fleet: &Fleet<'_>, limit: u32) -> PathBuf {
    let file = scratch_folder("canary").join("key.txt");
    std::fs::write(&file, fleet.database.new_key(limit).await + "\n").unwrap();
    file
}

/// Adds a replica with a control listener. A user who is logged in to it, and its URL.
async fn logged_in(fleet: &mut Fleet<'_>) -> (CliUser, String) {
    with_control(&mut fleet.config, &fleet.database);
    let token = new_token(&mut fleet.config, "canary-user");
    fleet.grow(1).await;
    let server = fleet.replicas.last().and_then(|replica| replica.control.clone()).unwrap();
    let user = CliUser::new();
    let login = ["login", "--server", &server, "--token-stdin"];
    user.run_with_input(&login, &format!("{token}\n")).await.ok();
    (user, server)
}

/// Where a busy machine does not make Redis seem unavailable, which would make limits inexact.
fn patient(config: &mut Config) {
    config.redis.timeout_ms = 10_000;
}

fn arguments(replicas: &[&Replica], key_file: &std::path::Path) -> Vec<String> {
    let urls = replicas.iter().map(|replica| format!("--url={}", replica.base));
    let key_file = format!("--key-file={}", key_file.display());
    ["canary".to_owned(), key_file].into_iter().chain(urls).collect()
}

/// Checks the fleet once, with these replicas in addition.
async fn checked(fleet: &Fleet<'_>, others: &[&Replica]) -> CommandResult {
    let replicas: Vec<_> = fleet.replicas.iter().chain(others.iter().copied()).collect();
    let arguments = arguments(&replicas, &key_file(fleet, LIMIT).await);
    run(gene_registry(arguments).arg("--once")).await
}

/// Where a canary says that its metrics are.
async fn metrics_address(canary: &Process) -> String {
    until(TIMEOUT, "it says where its metrics are", || async {
        let log = canary.stderr();
        let after = log.split_once("\"metrics\":\"")?.1;
        Some(after.split_once('"')?.0.to_owned())
    })
    .await
}

async fn metrics_at(address: &str) -> String {
    let response = reqwest::get(format!("http://{address}/metrics")).await.unwrap();
    assert_eq!(response.status(), 200);
    response.text().await.unwrap()
}

/// The value of a metric without labels; 0 if it is absent.
fn value(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

/// Asserts that one check, and no other, found this at this replica only.
#[track_caller]
fn assert_broken(result: &CommandResult, check: &str, replica: Option<&Replica>, what: &str) {
    assert_eq!(result.code, 1, "{result:?}");
    let broken: Vec<_> =
        result.stdout.lines().filter_map(|line| line.strip_prefix("broken: ")).collect();
    let at = replica.map(|replica| replica.base.trim_end_matches("/v1")).unwrap_or_default();
    let is_meant = |line: &&str| line.starts_with(&format!("{check}: {at}")) && line.contains(what);
    assert!(!broken.is_empty() && broken.iter().all(is_meant), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_fleet_keeps_every_promise() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let (user, server) = logged_in(&mut fleet).await;
    let once = async || {
        let replicas: Vec<_> = fleet.replicas.iter().collect();
        let mut words = arguments(&replicas, &key_file(&fleet, LIMIT).await);
        words.extend(["--once", "--server", &server].map(str::to_owned));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        user.run(&words).await.ok().stdout
    };

    let first = once().await;
    for check in CHECKS {
        assert!(first.contains(&format!("kept: {check}: ")), "{check}: {first}");
    }
    let said = format!("a limit of {LIMIT} admitted {LIMIT} of {} requests", LIMIT + 2 * 3);
    assert!(first.contains(&said), "{first}");
    // The key whose revocation is measured is made once an hour.
    let second = once().await;
    assert!(
        second.contains("not checked: revocation: a canary of this user has checked it"),
        "{second}"
    );
    assert!(second.contains("kept: limit: "), "{second}");

    let listed = user.run(&["api-key", "list"]).await.ok().stdout;
    assert!(!listed.contains("canary"), "{listed}");
    let all: String = user.run(&["api-key", "list", "--all-keys"]).await.ok().stdout;
    let keys: Vec<_> = all.lines().filter(|line| line.contains("canary")).collect();
    assert!(matches!(keys[..], [key] if key.contains("revoked")), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_listener_that_does_not_respond_says_nothing_of_revocations() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(1, postgres, redis, patient).await;
    let (user, server) = logged_in(&mut fleet).await;
    fleet.replicas.pop().unwrap().shutdown().await;
    let replicas: Vec<_> = fleet.replicas.iter().collect();
    let mut words = arguments(&replicas, &key_file(&fleet, LIMIT).await);
    words.extend(["--once", "--server", &server].map(str::to_owned));
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let result = user.run(&words).await.ok();
    assert!(result.stdout.contains(&format!("not checked: revocation: {server}")), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_runs_serves_its_results_as_metrics() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let replicas: Vec<_> = fleet.replicas.iter().collect();
    let words = arguments(&replicas, &key_file(&fleet, LIMIT).await);
    let canary = gene_registry(words).args(["--metrics", "127.0.0.1:0"]).start();
    let address = metrics_address(&canary).await;
    let metrics = until(TIMEOUT, "a round is complete", || async {
        let text = metrics_at(&address).await;
        (value(&text, "gene_registry_canary_rounds_total") == 1.0).then_some(text)
    })
    .await;
    for check in CHECKS.iter().filter(|check| **check != "revocation") {
        let series = format!("gene_registry_canary_broken{{check=\"{check}\"}} 0\n");
        assert!(metrics.contains(&series), "{check}: {metrics}");
    }
    let sent = value(&metrics, "gene_registry_canary_requests_total");
    assert_eq!(sent, f64::from(LIMIT + 2 * 2), "the limit, and two to each replica");
    canary.signal(Signal::Term);
    assert_eq!(canary.wait_exit(TIMEOUT).await.code(), Some(0), "{}", canary.report());
}

/// For an hour in `tests/more`, otherwise for one round.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_reported_of_a_healthy_fleet_whose_genes_change() {
    let seconds: u64 =
        std::env::var("GENE_REGISTRY_CANARY_SECONDS").map_or(0, |text| text.parse().unwrap());
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(2, postgres, redis, patient).await;
    let (user, server) = logged_in(&mut fleet).await;
    let replicas: Vec<_> = fleet.replicas.iter().collect();
    let mut words = arguments(&replicas, &key_file(&fleet, LIMIT).await);
    words.extend(["--metrics=127.0.0.1:0", "--server", &server].map(str::to_owned));
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let canary = user.command(&words).start();
    let address = metrics_address(&canary).await;
    let (writer, begun) = (fleet.database.connect().await, Instant::now());
    loop {
        let rename = "update registry.gene set name = name || '+' where id = (
            select id from registry.gene where length(name) < 100 order by random() limit 1)";
        writer.execute(rename, &[]).await.unwrap();
        let metrics = metrics_at(&address).await;
        let broken = metrics
            .lines()
            .find(|line| line.starts_with("gene_registry_canary_broken{") && line.ends_with(" 1"));
        assert!(broken.is_none(), "{broken:?}: {}", canary.report());
        let rounds = value(&metrics, "gene_registry_canary_rounds_total");
        if rounds >= 1.0 && begun.elapsed().as_secs() >= seconds {
            let least = (seconds / 60).saturating_sub(2) as f64;
            assert!(rounds >= least, "{rounds} rounds in {seconds} s: {}", canary.report());
            assert!(value(&metrics, "gene_registry_canary_revocation_seconds") <= 2.0, "{metrics}");
            return;
        }
        let bound = Duration::from_secs(seconds) + 2 * TIMEOUT;
        assert!(canary.is_running() && begun.elapsed() < bound, "{}", canary.report());
        // One change a second.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_usable_is_named() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start(1, postgres, redis).await;
    let replicas: Vec<_> = fleet.replicas.iter().collect();
    let url = format!("--url={}", replicas[0].base);
    let none = run(gene_registry(["canary", "--once", &url]).env_remove("CANARY_API_KEY")).await;
    none.failed(2, &[]);
    let unknown = ApiKey::generate().unwrap();
    let refused = gene_registry(["canary", "--once", &url]).env("CANARY_API_KEY", unknown.expose());
    let refused = run(refused).await.failed(1, &[unknown.expose()]);
    assert!(refused.stderr.contains("the key is refused"), "{refused:?}");
    let empty = gene_registry(["canary", "--once", &url]).env("CANARY_API_KEY", "");
    let empty = run(empty).await.failed(2, &[]);
    assert!(empty.stderr.contains("CANARY_API_KEY: not an API key"), "{empty:?}");
    let file = scratch_folder("canary").join("key.txt");
    std::fs::write(&file, "# no key yet\n\n").unwrap();
    let file = format!("--key-file={}", file.display());
    let none = run(gene_registry(["canary", "--once", &url, &file])).await.failed(1, &[]);
    assert!(none.stderr.contains("key.txt holds no key"), "{none:?}");
    let often = run(gene_registry(["canary", "--every", "59s", &url])).await.failed(2, &[]);
    assert!(often.stderr.contains("expected a duration of 60s to 24h"), "{often:?}");
    let few = arguments(&replicas, &key_file(&fleet, 5).await);
    let few = run(gene_registry(few).arg("--once")).await.failed(1, &[]);
    assert!(
        few.stderr.contains("a limit of 19 to 1000 requests a minute (replicas: 1); at "),
        "{few:?}"
    );
}
