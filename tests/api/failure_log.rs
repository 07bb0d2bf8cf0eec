//! The cause of 5xx responses in the log: at WARN, one line for each kind of cause in ten seconds.

use std::time::Duration;

use data_encoding::HEXLOWER;
use gene_registry::control::LoginToken;
use serde_json::Value;

use crate::support::binary::ReplicaProcess;
use crate::support::control::ControlClient;
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Response, sample};
use crate::support::traffic::uncached_path;
use crate::support::wait::{eventually, until};

const TIMEOUT: Duration = Duration::from_secs(30);
const REQUESTS: u64 = 25;

/// A replica that logs warnings only, with further settings.
async fn replica(database: &Database<'_>, env: &[(&str, &str)]) -> ReplicaProcess {
    let url = database.url_as(READER);
    let basics = [("DATABASE_URL", &*url), ("GENE_REGISTRY__LOG__LEVEL", "warn")];
    ReplicaProcess::start(&[&basics, env].concat()).await
}

/// The lines of failures with this text in their cause.
fn failures(process: &ReplicaProcess, cause: &str) -> Vec<Value> {
    let lines = process.log();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_meant = |line: &Value| {
        line["target"] == "gene_registry::failure"
            && line["cause"].as_str().is_some_and(|given| given.contains(cause))
    };
    lines.filter(is_meant).collect()
}

/// Checks the first line of a kind.
async fn assert_logged(process: &ReplicaProcess, cause: &str, response: &Response) {
    eventually(TIMEOUT, "the cause is logged", || async { !failures(process, cause).is_empty() })
        .await;
    let line = failures(process, cause).remove(0);
    assert_eq!((&line["level"], &line["message"]), (&"WARN".into(), &"a request failed".into()));
    assert_eq!(line["status"], response.status.as_u16());
    assert_eq!(line["suppressed"], 0);
    assert!(!response.text.contains(cause), "{response:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cause_of_502_is_logged_once_in_ten_seconds_with_the_number_of_others() {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(1_000_000).await;
    let process = replica(&database, &[]).await;
    let get = async || process.replica.get(&uncached_path(), Some(&key)).await;
    assert_eq!(get().await.status, 200);
    let owner = database.connect().await;
    owner.batch_execute("alter view registry_read.gene rename column name to label").await.unwrap();

    let cause = "column g.name does not exist";
    let response = get().await;
    response.assert_refused(502, "DB_ERROR");
    assert_logged(&process, cause, &response).await;
    for _ in 0..REQUESTS {
        get().await.assert_refused(502, "DB_ERROR");
    }
    assert_eq!(failures(&process, cause).len(), 1, "{}", process.log());
    let second = until(TIMEOUT, "another line is logged", || async {
        get().await.assert_refused(502, "DB_ERROR");
        failures(&process, cause).get(1).cloned()
    })
    .await;
    assert!(second["suppressed"].as_u64().unwrap() >= REQUESTS, "{second}");

    let revoke = format!(
        "alter view registry_read.gene rename column label to name;
         revoke select on registry_read.gene from {READER}"
    );
    owner.batch_execute(&revoke).await.unwrap();
    let response = get().await;
    response.assert_refused(502, "DB_ERROR");
    assert_logged(&process, "permission denied for view gene", &response).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cause_of_503_is_logged() {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(1_000_000).await;
    let process = replica(
        &database,
        &[
            ("REDIS_URL", "redis://127.0.0.1:1"),
            ("GENE_REGISTRY__RATE_LIMIT__WITHOUT_REDIS", "refuse"),
        ],
    )
    .await;

    let response = process.replica.get("/genes", Some(&key)).await;

    response.assert_refused(503, "UNAVAILABLE");
    assert_logged(&process, "rate_limit.without_redis is refuse", &response).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn causes_on_the_control_listener_are_logged() {
    let database = sample(PostgresServer::shared().await).await;
    let token = LoginToken::generate().unwrap();
    let tokens = format!("[{{user=\"alice\",sha256=\"{}\"}}]", HEXLOWER.encode(&token.hash()));
    let process = replica(
        &database,
        &[
            ("GENE_REGISTRY__CONTROL__BIND", "127.0.0.1:0"),
            ("GENE_REGISTRY__CONTROL__TOKENS", &tokens),
            ("CONTROL_DATABASE_URL", "postgres://127.0.0.1:1/none"),
        ],
    )
    .await;

    let client = ControlClient::new(&process.replica, Some(token.expose()));
    let response = client.get("/api-keys").await;

    assert_eq!(response.status, 502, "{response:?}");
    assert_logged(&process, "Connection refused", &response).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cause_of_an_invalid_phenotype_names_the_gene() {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(1_000_000).await;
    let owner = database.connect().await;
    let invalid = "alter view registry_read.gene rename to sound;
        create view registry_read.gene as
            select id, name, domain, fidelity, description, owner, fitness_score, reputation_score,
                downloads, arena_rank, '{'::text || id as phenotype, install_command,
                min_playground_version, required_fidelity
            from registry_read.sound;
        grant select on registry_read.gene to gene_registry_reader";
    owner.batch_execute(invalid).await.unwrap();
    let id = "select id::text from registry_read.gene order by id limit 1";
    let id: String = owner.query_one(id, &[]).await.unwrap().get(0);
    let process = replica(&database, &[]).await;
    let path = format!("/genes/{id}/phenotype");
    let response = process.replica.get(&path, Some(&key)).await;
    response.assert_refused(502, "DB_ERROR");
    let cause = format!("gene {id}: db error: ERROR: invalid input syntax for type json");
    assert_logged(&process, &cause, &response).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cause_of_401_tells_a_foreign_key_from_a_malformed_one() {
    let database = sample(PostgresServer::shared().await).await;
    let process = replica(&database, &[("GENE_REGISTRY__LOG__LEVEL", "info")]).await;
    let mut texts = Vec::new();
    for (key, cause) in [
        ("partner-0123456789", "the key was created elsewhere, and keys.accept_foreign is false"),
        ("gr_0123456789abcdef", "the key is malformed"),
        ("short", "the key is malformed"),
    ] {
        let before = process.lines_with(&["gene_registry::request", cause]);
        let response = process.replica.get("/genes", Some(key)).await;
        response.assert_refused(401, "UNAUTHORIZED");
        texts.push(response.text);
        eventually(TIMEOUT, "the cause is logged", || async {
            process.lines_with(&["gene_registry::request", cause]) > before
        })
        .await;
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
}
