//! The command: its output, its exit status, and what a replica logs at its start.

use std::time::Duration;

use serde_json::{Value, json};

use super::healthy;
use crate::commands::{gene_registry, run};
use crate::support::binary::ReplicaProcess;
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::process::Launch;
use crate::support::redis::RedisServer;
use crate::support::replica::READER;
use crate::support::wait::eventually;

fn doctor(url: &str, args: &[&str]) -> Launch {
    gene_registry([&["doctor"], args].concat())
        .env("DATABASE_URL", url)
        .env("GENE_REGISTRY__SERVER__MAX_CONNECTIONS", "100")
        .env("GENE_REGISTRY__UPSTREAM__QUERY_MS", "2000")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_schema_with_redis_is_healthy() {
    need_own_servers!();
    let database = healthy(PostgresServer::shared().await).await;
    let url = database.url_as(READER);
    let redis = RedisServer::shared().await.url();
    let ended = run(doctor(&url, &[]).env("REDIS_URL", &redis)).await.ok();
    let expected = "ok: configuration, database, change log, rows, indexes, keys, views, role, text, \
                    standbys, clocks, resources, key databases, redis\n";
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (expected, ""));

    let ended = run(doctor(&url, &["--json"]).env("REDIS_URL", &redis)).await.ok();
    let findings: Value = serde_json::from_str(&ended.stdout).unwrap();
    let expected = json!({"severity": "ok", "check": "configuration", "message": "", "remedy": ""});
    assert_eq!(findings[0], expected);
    let findings = findings.as_array().unwrap();
    assert!(findings.len() == 14 && findings.iter().all(|it| it["severity"] == "ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serious_finding_is_a_line_with_its_remedy_and_exit_status_1() {
    let database = healthy(PostgresServer::shared().await).await;
    let revoke = "revoke select on registry_read.gene from gene_registry_reader";
    database.connect().await.batch_execute(revoke).await.unwrap();
    let url = database.url_as(READER);
    let ended = run(doctor(&url, &[])).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    let lines: Vec<_> = ended.stdout.lines().collect();
    let expected = "serious: views: gene_registry_reader may not read registry_read.gene. \
                    GRANT SELECT ON registry_read.gene TO gene_registry_reader;";
    assert_eq!(lines[0], expected);
    assert_eq!(lines[1], "not checked: change log, rows, indexes, keys");
    assert!(lines[2].starts_with("ok: ") && lines.len() == 3, "{lines:?}");
    let ended = run(doctor(&url, &["--json"])).await;
    let findings: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.code, &findings[0]["check"]), (1, &json!("views")), "{findings}");
    let left_out = (&findings[1]["severity"], &findings[1]["check"]);
    assert_eq!(left_out, (&json!("not checked"), &json!("change log")), "{findings}");

    let ended = run(doctor("postgres://a@127.0.0.1:1/b", &[])).await;
    let expected =
        "not checked: change log, rows, indexes, keys, views, role, text, standbys, clocks";
    assert!(ended.stdout.lines().any(|line| line == expected), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_of_the_configuration_is_a_serious_finding() {
    let command = doctor("mysql://hunter2@h/d", &[])
        .env("GENE_REGISTRY__REDIS__TIMEOUT_MS", "soon")
        .env("GENE_REGISTRY_SERVER__BIND", "127.0.0.1:1");
    let ended = run(command).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{ended:?}");
    for (beginning, word) in [
        ("serious: configuration: ", "upstream.url"),
        ("serious: configuration: ", "redis.timeout_ms"),
        ("warning: configuration: ", "GENE_REGISTRY_SERVER__BIND"),
    ] {
        let is_it = |line: &&&str| line.starts_with(beginning) && line.contains(word);
        assert_eq!(lines.iter().filter(is_it).count(), 1, "{word}: {ended:?}");
    }
    assert!(!ended.stdout.contains("hunter2"), "{ended:?}");
    let unset = gene_registry(["doctor"]);
    let ended = run(unset).await;
    assert!(ended.code == 1 && ended.stdout.contains("upstream.url: must be set"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_logs_what_the_cheap_checks_find_at_its_start() {
    let database = healthy(PostgresServer::shared().await).await;
    let drop = "alter view registry_read.gene rename column owner to author";
    database.connect().await.batch_execute(drop).await.unwrap();
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url()),
        ("GENE_REGISTRY_SERVER__BIND", "127.0.0.1:1"),
    ])
    .await;
    for words in [
        ["\"WARN\"", "GENE_REGISTRY_SERVER__BIND", "two underscores"],
        ["\"WARN\"", "registry_read.gene has no column owner", "Add it to the view"],
        ["\"WARN\"", "is a superuser", "Use a role that only reads"],
    ] {
        eventually(Duration::from_secs(20), "it is logged", || async {
            process.lines_with(&words) == 1
        })
        .await;
    }
}
