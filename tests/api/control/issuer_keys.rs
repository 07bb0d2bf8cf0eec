//! The issuer's signing keys: rotated, withdrawn, unavailable, and not fetched too often.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::json;

use super::replica;
use crate::support::control::ControlClient;
use crate::support::issuer::Issuer;
use crate::support::replica::{Replica, Response};
use crate::support::wait::eventually;

/// Keys are fetched again within this time; a loaded machine gets more.
const TIMEOUT: Duration = Duration::from_secs(30);

async fn whoami(replica: &Replica, token: &str) -> Response {
    ControlClient::new(replica, Some(token)).get("/whoami").await
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_keys_are_found_and_withdrawn_ones_are_refused() {
    let issuer = Issuer::start().await;
    let (replica, _database) = replica(|config| issuer.configure(config)).await;
    let old = issuer.log_in("alice").await.access;
    assert_eq!(whoami(&replica, &old).await.status, 200);
    issuer.rotate("ES256", true).await;
    let new = issuer.log_in("alice").await.access;
    eventually(TIMEOUT, "the new key is found", || async {
        whoami(&replica, &new).await.status == 200
    })
    .await;
    assert_eq!(whoami(&replica, &old).await.status, 200, "the old key is still published");
    issuer.rotate("EdDSA", false).await;
    let newest = issuer.log_in("alice").await.access;
    eventually(TIMEOUT, "the newest key is found", || async {
        whoami(&replica, &newest).await.status == 200
    })
    .await;
    for withdrawn in [&old, &new] {
        whoami(&replica, withdrawn).await.assert_refused(401, "UNAUTHORIZED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_set_is_fetched_once_for_many_requests_and_rarely_for_unknown_keys() {
    let issuer = Issuer::start().await;
    let (replica, _database) = replica(|config| issuer.configure(config)).await;
    let token = issuer.log_in("alice").await.access;
    let responses = join_all((0..20).map(|_| whoami(&replica, &token))).await;
    assert!(responses.iter().all(|response| response.status == 200));
    assert_eq!(issuer.fetches().await, 1);
    let begun = std::time::Instant::now();
    for number in 0..25 {
        let header = json!({ "kid": format!("made up {number}") });
        let made_up = issuer.sign(json!({ "sub": "mallory" }), header).await;
        assert_eq!(whoami(&replica, &made_up).await.status, 401);
    }
    let max_fetches = 2 + begun.elapsed().as_secs() / 5;
    let fetches = issuer.fetches().await;
    assert!(fetches <= max_fetches, "{fetches} in {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn known_keys_work_while_the_issuer_is_unavailable_and_unknown_ones_are_503() {
    let issuer = Issuer::start().await;
    let (knowing, _database) = replica(|config| issuer.configure(config)).await;
    let (ignorant, _database2) = replica(|config| issuer.configure(config)).await;
    let token = issuer.log_in("alice").await.access;
    assert_eq!(whoami(&knowing, &token).await.status, 200);
    let header = json!({ "kid": "of tomorrow" });
    let unknown = issuer.sign(json!({ "sub": "alice" }), header).await;
    issuer.set(json!({ "refuse": true })).await;
    assert_eq!(whoami(&knowing, &token).await.status, 200);
    let response = whoami(&ignorant, &token).await;
    response.assert_refused(503, "ISSUER_UNAVAILABLE");
    assert!(!response.header("retry-after").is_empty());
    eventually(TIMEOUT, "the issuer has been tried in vain", || async {
        whoami(&knowing, &unknown).await.status == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    issuer.set(json!({ "refuse": false })).await;
    eventually(TIMEOUT, "the issuer is available again", || async {
        whoami(&ignorant, &token).await.status == 200
    })
    .await;
    issuer.stop();
    assert_eq!(whoami(&knowing, &token).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_starts_without_its_issuer_and_login_tokens_work() {
    let issuer = Issuer::start().await;
    let token = issuer.log_in("alice").await.access;
    let mut login = String::new();
    let (replica, _database) = replica(|config| {
        issuer.configure(config);
        login = crate::support::control::new_token(config, "bob");
    })
    .await;
    issuer.stop();
    whoami(&replica, &token).await.assert_refused(503, "ISSUER_UNAVAILABLE");
    assert_eq!(whoami(&replica, &login).await.json()["user"], "bob");
    let methods = ControlClient::new(&replica, None).get("/login").await.json()["methods"].clone();
    assert_eq!(methods, json!(["oidc", "token"]));
}
