//! Secrets of the control listener: tokens and new keys are in no log (at any level), metric or
//! database log, and in no response except the one that shows a new key.

use reqwest::Method;
use serde_json::json;

use crate::secrecy::assert_silent;
use crate::support::binary::ReplicaProcess;
use crate::support::control::{ControlClient, KEYS_ROLE};
use crate::support::issuer::{AUDIENCE, CLIENT, Issuer};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::replica::{READER, sample};
use gene_registry::control::LoginToken;

const PASSWORD: &str = "keys-hunter2";

/// The secret parts of a token: payload and signature.
fn secret_parts(token: &str) -> Vec<String> {
    token.split('.').skip(1).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_new_keys_are_in_no_log_metric_or_other_response() {
    need_own_servers!();
    let conf = vec!["log_statement = 'all'".to_owned(), "log_connections = on".to_owned()];
    let postgres = PostgresServer::start(PostgresOptions { conf, ..Default::default() }).await;
    let database = sample(&postgres).await;
    let issuer = Issuer::start().await;
    let (good, unknown) = (LoginToken::generate().unwrap(), LoginToken::generate().unwrap());
    let hash: String = good.hash().iter().map(|byte| format!("{byte:02x}")).collect();
    let before = postgres.log().len();
    let keys_url = database.url_as(&format!("{KEYS_ROLE}:{PASSWORD}"));
    let tokens = format!("[{{user=\"alice\",sha256=\"{hash}\"}}]");
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("CONTROL_DATABASE_URL", &keys_url),
        ("GENE_REGISTRY__CONTROL__BIND", "127.0.0.1:0"),
        ("GENE_REGISTRY__CONTROL__TOKENS", &tokens),
        ("GENE_REGISTRY__CONTROL__MAX_RATE_LIMIT", "1000000"),
        ("GENE_REGISTRY__CONTROL__OIDC__ISSUER", &issuer.url),
        ("GENE_REGISTRY__CONTROL__OIDC__AUDIENCE", AUDIENCE),
        ("GENE_REGISTRY__CONTROL__OIDC__CLIENT_ID", CLIENT),
        ("GENE_REGISTRY__LOG__LEVEL", "trace"),
    ])
    .await;
    let access = issuer.log_in("alice").await;
    // With the signature of another token.
    let (told, signature) =
        (access.access.rsplit_once('.').unwrap().0, access.id.rsplit_once('.').unwrap().1);
    let forged = format!("{told}.{signature}");
    let mut secrets = vec![good.expose()[4..].to_owned(), unknown.expose()[4..].to_owned()];
    secrets.extend([PASSWORD.to_owned(), access.refresh.clone()]);
    for token in [&access.access, &access.id, &forged] {
        secrets.extend(secret_parts(token));
    }
    let alice = ControlClient::new(&process.replica, Some(good.expose()));
    let mut responses = String::new();
    let mut made = Vec::new();
    for token in [good.expose(), &access.access] {
        let caller = ControlClient::new(&process.replica, Some(token));
        let key = caller.create("ci").await;
        let rotate = json!({ "prefix": &key[..11], "overlap_s": 5 });
        let rotated = caller.post("/api-keys/rotate", &rotate).await.json();
        made.push(rotated["key"].as_str().unwrap().to_owned());
        made.push(key);
    }
    secrets.extend(made.iter().map(|key| key[12..].to_owned()));
    for token in [good.expose(), unknown.expose(), &access.access, &access.id, &forged, &made[0]] {
        let caller = ControlClient::new(&process.replica, Some(token));
        for path in ["/whoami", "/api-keys", "/api-keys?limit=x", "/nothing"] {
            responses += &format!("{:?}", caller.get(path).await);
        }
        for path in ["/api-keys/revoke", "/api-keys/rotate", "/api-keys/update"] {
            responses += &format!("{:?}", caller.post(path, &json!({ "prefix": made[0] })).await);
            responses += &format!("{:?}", caller.post(path, &json!({ "key": made[0] })).await);
            responses += &format!("{:?}", caller.post(path, &json!({ made[0].clone(): 1 })).await);
        }
        let spec = json!({ "name": "n", "scopes": [made[0]], "expires_at": made[0] });
        responses += &format!("{:?}", caller.post("/api-keys", &spec).await);
        let broken = format!("{{\"prefix\":{}", made[0]);
        responses += &format!("{:?}", caller.send(Method::POST, "/api-keys", Some(broken)).await);
    }
    for key in &made {
        process.replica.get("/genes", Some(key)).await;
    }
    assert_silent("the database's log", &postgres.log()[before..], &secrets);
    postgres.stop_immediate().await;
    responses += &format!("{:?}", alice.get("/api-keys").await);
    responses += &format!("{:?}", alice.post("/api-keys", &json!({ "name": "x" })).await);
    for seen in ["DB_ERROR", "INVALID_PREFIX", "MISSING_PARAM", "UNAUTHORIZED", "NOT_FOUND"] {
        assert!(responses.contains(seen), "{seen}");
    }
    assert_silent("a response", &responses, &secrets);
    assert_silent("the metrics", &process.replica.ops("/metrics").await.text, &secrets);
    let metrics = process.replica.ops("/metrics").await.text;
    let counted = r#"gene_registry_control_requests_total{route="/control/v1/whoami",method="GET",status="401"}"#;
    assert!(metrics.contains(counted), "{metrics}");
    let log = process.into_log().await;
    assert_silent("the log", &log, &secrets);
    for told in ["TRACE", "the login token is unknown", "its signature is invalid"] {
        assert!(log.contains(told), "{told}");
    }
}
