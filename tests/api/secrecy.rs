//! Secrets: plain keys and passwords in URLs appear nowhere, and no error reveals anything about
//! the database.

use std::time::Duration;

use gene_registry::keys::ApiKey;
use redis::Value;
use reqwest::Method;

use crate::support::binary::ReplicaProcess;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, Response, sample};
use crate::support::traffic::{routes, uncached_path};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(5);
const DATABASE_PASSWORD: &str = "database-hunter2";
const REDIS_PASSWORD: &str = "redis-hunter2";

/// Checks that the text contains none of the secrets.
#[track_caller]
pub(crate) fn assert_silent(place: &str, text: &str, secrets: &[String]) {
    for secret in secrets {
        let found = text.lines().find(|line| line.contains(secret.as_str()));
        assert!(found.is_none(), "{place} has {secret}: {found:?}");
    }
}

/// Everything that a response shows to its client.
fn visible_text(response: &Response) -> String {
    format!("{:?}\n{}", response.headers, response.text)
}

/// Sends every kind of request with these keys; returns what the responses show.
async fn ask_everything(process: &ReplicaProcess, paths: &[String], keys: &[String]) -> String {
    let mut all = String::new();
    let more =
        ["/genes?limit=0", "/genes/nonsense/phenotype", "/arena/insights?domain=none", "/no"];
    for key in keys {
        for path in paths.iter().map(String::as_str).chain(more) {
            all += &visible_text(&process.replica.get(path, Some(key)).await);
        }
        all += &visible_text(&process.replica.get(&uncached_path(), Some(key)).await);
        let url = format!("{}/genes", process.replica.base);
        let twice = [("X-API-Key", key.as_str()), ("X-API-Key", key.as_str())];
        all += &visible_text(&process.replica.send(Method::GET, &url, &twice).await);
        all += &visible_text(&process.replica.send(Method::POST, &url, &twice[..1]).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_passwords_are_in_no_store_log_metric_or_response() {
    need_own_servers!();
    let conf = vec!["log_statement = 'all'".to_owned(), "log_connections = on".to_owned()];
    let postgres = PostgresServer::start(PostgresOptions { conf, ..Default::default() }).await;
    let redis = RedisServer::start(&["--slowlog-log-slower-than", "0"]).await;
    let database = sample(&postgres).await;
    let paths = routes(&database).await;
    let unknown = ApiKey::generate().unwrap().expose().to_owned();
    let mut mistyped = database.new_key(1_000).await;
    mistyped.push('x');
    let keys = vec![database.new_key(1_000).await, database.new_key(2).await, unknown, mistyped];
    let rest = |key: &String| key.rsplit_once('_').unwrap().1[..32].to_owned();
    let mut secrets: Vec<String> = keys.iter().map(rest).collect();
    secrets.extend([DATABASE_PASSWORD.to_owned(), REDIS_PASSWORD.to_owned()]);
    let before = postgres.log().len();
    let monitor = redis.monitor().await;

    let user = format!("gene_registry_reader:{DATABASE_PASSWORD}");
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(&user)),
        ("REDIS_URL", &redis.url().replace("://", &format!("://default:{REDIS_PASSWORD}@"))),
        ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "1000"),
        ("GENE_REGISTRY__LOG__LEVEL", "trace"),
    ])
    .await;
    eventually(TIMEOUT, "the replica is ready, and shares what it reads", || async {
        process.replica.ops("/readyz").await.status == 200
    })
    .await;
    let mut responses = ask_everything(&process, &paths, &keys).await;
    eventually(TIMEOUT, "the counters were seen", || async {
        !monitor.lines_with("limit").is_empty()
    })
    .await;
    let stored = redis.keys("gr:").await;
    assert!(stored.len() > 3, "{stored:?}");
    for key in &stored {
        let value: Vec<u8> = redis.command(&["GET", key]).await;
        assert_silent("a value in Redis", &String::from_utf8_lossy(&value), &secrets);
    }
    assert_silent("the names of keys in Redis", &stored.join("\n"), &secrets);
    let slow: Value = redis.command(&["SLOWLOG", "GET", "-1"]).await;
    let slow = format!("{slow:?}");
    assert!(slow.contains("EVAL"), "{slow}");
    assert_silent("the slow log", &slow, &secrets);
    assert_silent("MONITOR", &monitor.lines().join("\n"), &secrets);
    assert_silent("the database's log", &postgres.log()[before..], &secrets);

    redis.kill().await;
    postgres.stop_immediate().await;
    responses += &ask_everything(&process, &paths, &keys).await;
    assert!(responses.contains("DB_ERROR") && responses.contains("RATE_LIMITED"));
    assert_silent("a response", &responses, &secrets);
    assert_silent("the metrics", &process.replica.ops("/metrics").await.text, &secrets);
    assert_silent("readiness", &process.replica.ops("/readyz").await.text, &secrets);
    let log = process.into_log().await;
    for told in [r#""level":"DEBUG""#, r#""status":502"#] {
        assert!(log.contains(told), "{told}");
    }
    assert_silent("the log", &log, &secrets);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_logged_once_with_the_prefix_of_its_key_and_nothing_of_its_query() {
    need_own_servers!();
    let postgres = PostgresServer::shared().await;
    let database = sample(postgres).await;
    let key = database.new_key(1_000).await;
    let url = database.url_as(READER);
    let process = ReplicaProcess::start(&[("DATABASE_URL", &url)]).await;

    let path = "/genes?domain=search&tracking=visible-nowhere";
    assert_eq!(process.replica.get(path, Some(&key)).await.status, 200);

    let prefix = &key[..11];
    eventually(TIMEOUT, "the request is logged", || async {
        process.lines_with(&["gene_registry::request", prefix, "\"status\":200"]) == 1
    })
    .await;
    assert_eq!(process.lines_with(&["visible-nowhere"]), 0, "{}", process.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_log_has_the_cause_of_a_failed_read() {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(1_000).await;
    let process = ReplicaProcess::start(&[("DATABASE_URL", &database.url_as(READER))]).await;
    assert_eq!(process.replica.get("/genes", Some(&key)).await.status, 200);
    let trouble = "alter view registry_read.gene rename to elsewhere";
    database.connect().await.batch_execute(trouble).await.unwrap();

    let response = process.replica.get(&uncached_path(), Some(&key)).await;

    response.assert_refused(502, "DB_ERROR");
    assert!(!visible_text(&response).contains("registry_read"), "{response:?}");
    let id = response.header("x-request-id").to_owned();
    eventually(TIMEOUT, "the cause is logged with the request's id", || async {
        let cause = "relation \\\"registry_read.gene\\\" does not exist";
        process.lines_with(&[&id, "\"WARN\"", "\"status\":502", cause]) == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_database_failure_has_the_same_body() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let troubles = [
        "revoke select on all tables in schema registry_read from gene_registry_reader",
        "revoke usage on schema registry_read from gene_registry_reader",
        "alter view registry_read.gene rename to elsewhere; \
         alter view registry_read.api_key rename to locked_away",
        "alter view registry_read.gene rename column name to title; \
         alter view registry_read.api_key rename column scopes to powers",
        "drop schema registry_read cascade",
        "drop schema registry cascade",
    ];
    let mut bodies = Vec::new();
    for trouble in troubles {
        let fleet = Fleet::start(1, postgres, redis).await;
        let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(1_000).await);
        assert_eq!(replica.get(&uncached_path(), Some(&key)).await.status, 200);
        let paths = routes(&fleet.database).await;
        fleet.database.connect().await.batch_execute(trouble).await.unwrap();

        for path in &paths {
            bodies.push((trouble, replica.get(path, Some(&key)).await));
        }
        let unknown = ApiKey::generate().unwrap();
        bodies.push((trouble, replica.get("/genes", Some(unknown.expose())).await));
    }
    for (trouble, response) in &bodies {
        assert_eq!(response.status, 502, "{trouble}: {response:?}");
        response.assert_refused(502, "DB_ERROR");
        assert_eq!(response.text, bodies[0].1.text, "{trouble}");
        assert_eq!(response.header("cache-control"), "no-store", "{trouble}");
    }
}
