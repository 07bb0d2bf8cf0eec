//! Login tokens, of which the configuration has only the hashes.

use gene_registry::config::TokenConfig;
use gene_registry::control::LoginToken;
use gene_registry::registry::Timestamp;
use reqwest::Method;
use serde_json::json;

use super::replica;
use crate::support::control::{ControlClient, new_token};

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_token_authenticates_its_user() {
    let (mut alice, mut operator) = (String::new(), String::new());
    let (replica, _database) = replica(|config| {
        alice = new_token(config, "alice");
        operator = new_token(config, "olga");
        config.control.operators = vec!["olga".to_owned()];
    })
    .await;
    let login = ControlClient::new(&replica, None).get("/login").await;
    assert_eq!(login.json(), json!({ "methods": ["token"], "oidc": null }));
    assert_eq!(login.header("cache-control"), "no-store");
    let who = ControlClient::new(&replica, Some(&alice)).get("/whoami").await;
    let expected =
        json!({ "user": "alice", "operator": false, "method": "token", "expires_at": null });
    assert_eq!(who.json(), expected);
    assert_eq!(who.header("cache-control"), "no-store");
    let who = ControlClient::new(&replica, Some(&operator)).get("/whoami").await;
    assert_eq!(who.json()["operator"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_token_gets_the_same_refusal() {
    let expired = LoginToken::generate().unwrap();
    let (replica, database) = replica(|config| {
        new_token(config, "alice");
        let expires = Some(Timestamp::now());
        let ended = TokenConfig { user: "bob".to_owned(), sha256: expired.hash(), expires };
        config.control.tokens.push(ended);
    })
    .await;
    let key = database.new_key(100).await;
    let unknown = LoginToken::generate().unwrap();
    let mistyped = format!("{}x", unknown.expose());
    let mut bodies = Vec::new();
    for token in [unknown.expose(), expired.expose(), &mistyped, &key, "grt_", "a.b.c", "x"] {
        let response = ControlClient::new(&replica, Some(token)).get("/whoami").await;
        response.assert_refused(401, "UNAUTHORIZED");
        assert!(response.header("www-authenticate").starts_with("Bearer "), "{response:?}");
        assert!(!response.text.contains(token), "{response:?}");
        bodies.push(response.text);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    for path in ["/whoami", "/api-keys"] {
        let response = ControlClient::new(&replica, None).get(path).await;
        response.assert_refused(401, "UNAUTHORIZED");
    }
    for path in ["/api-keys", "/api-keys/revoke", "/api-keys/rotate", "/api-keys/update"] {
        let response = ControlClient::new(&replica, None).post(path, &json!({})).await;
        response.assert_refused(401, "UNAUTHORIZED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_is_throttled_and_authenticated_users_continue() {
    let mut alice = String::new();
    let (replica, _database) = replica(|config| alice = new_token(config, "alice")).await;
    let alice = ControlClient::new(&replica, Some(&alice));
    assert_eq!(alice.get("/whoami").await.status, 200);
    let mut refused = 0;
    loop {
        let guess = LoginToken::generate().unwrap();
        let response = ControlClient::new(&replica, Some(guess.expose())).get("/whoami").await;
        if response.status == 429 {
            response.assert_refused(429, "RATE_LIMITED");
            assert!(response.header("retry-after").parse::<u64>().unwrap() > 0);
            break;
        }
        response.assert_refused(401, "UNAUTHORIZED");
        refused += 1;
        // One token of the bucket returns each second, however slow the machine is.
        assert!(refused < 500, "guessing is still possible");
    }
    assert!(refused >= 30);
    assert_eq!(alice.get("/whoami").await.status, 200);
    assert_eq!(ControlClient::new(&replica, None).get("/login").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_are_checked_first_then_methods_then_the_token() {
    let (replica, _database) = replica(|config| {
        new_token(config, "alice");
    })
    .await;
    let nobody = ControlClient::new(&replica, None);
    for path in ["/nothing", "", "/api-keys/", "/api-keys/revoke/x"] {
        nobody.get(path).await.assert_refused(404, "NOT_FOUND");
    }
    for (method, path, allow) in [
        (Method::DELETE, "/api-keys", "GET, POST"),
        (Method::HEAD, "/login", "GET"),
        (Method::GET, "/api-keys/revoke", "POST"),
        (Method::OPTIONS, "/whoami", "GET"),
    ] {
        let is_head = method == Method::HEAD;
        let response = nobody.send(method, path, None).await;
        assert_eq!((response.status.as_u16(), response.header("allow")), (405, allow), "{path}");
        if !is_head {
            response.assert_refused(405, "METHOD_NOT_ALLOWED");
        }
    }
}
