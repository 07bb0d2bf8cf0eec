//! Errors name the wrong field or parameter and never repeat its value.

use gene_registry::keys::ApiKey;
use reqwest::Method;
use serde_json::{Value, json};

use super::replica;
use crate::support::control::{ControlClient, new_token};
use crate::support::replica::Replica;

async fn alice() -> (ControlClient, Replica, impl Sized) {
    let mut token = String::new();
    let (replica, database) = replica(|config| token = new_token(config, "alice")).await;
    (ControlClient::new(&replica, Some(&token)), replica, database)
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_in_a_body_are_named_and_no_key_is_created() {
    let (alice, _replica, _database) = alice().await;
    let named = |value: Value| json!({ "name": value });
    let with = |field: &str, value: Value| json!({ "name": "ci", field: value });
    for (body, field) in [
        (json!({}), "name"),
        (named(Value::Null), "name"),
        (named(json!("")), "name"),
        (named(json!(5)), "name"),
        (named(json!("x".repeat(201))), "name"),
        (named(json!("   ")), "name"),
        (named(json!("\u{a0}\u{3000}\u{200d}")), "name"),
        (named(json!("a\u{0}b")), "name"),
        (named(json!("line\nend")), "name"),
        (named(json!("a\u{1b}[31mb")), "name"),
        (named(json!("a\u{9b}b")), "name"),
        (named(json!("\u{202e}evil\u{202c}")), "name"),
        (named(json!("a\u{2066}b")), "name"),
        (named(json!("a\u{200b}b")), "name"),
        (named(json!("a\u{feff}b")), "name"),
        (with("scopes", json!([])), "scopes"),
        (with("scopes", json!("read")), "scopes"),
        (with("scopes", json!(["re ad"])), "scopes"),
        (with("scopes", json!([1])), "scopes"),
        (with("scopes", json!(vec!["read"; 17])), "scopes"),
        (with("rate_limit_per_minute", json!(-1)), "rate_limit_per_minute"),
        (with("rate_limit_per_minute", json!(1.5)), "rate_limit_per_minute"),
        (with("rate_limit_per_minute", json!("30")), "rate_limit_per_minute"),
        (with("rate_limit_per_minute", json!(2_147_483_648_u32)), "rate_limit_per_minute"),
        (with("expires_at", json!("2001-01-01T00:00:00Z")), "expires_at"),
        (with("expires_at", json!("soon")), "expires_at"),
        (with("expires_at", json!(1)), "expires_at"),
        (with("owner", json!("bob")), "body"),
    ] {
        let response = alice.post("/api-keys", &body).await;
        response.assert_refused(400, "MISSING_PARAM");
        let text = response.json()["error"].as_str().unwrap().to_owned();
        assert!(text.starts_with(field), "{body}: {text}");
    }
    for body in ["", "x", "[]", "\"x\"", "{\"name\":", "{\"name\":\"\\ud800\"}", "\u{feff}{}"] {
        let response = alice.send(Method::POST, "/api-keys", Some(body.to_owned())).await;
        response.assert_refused(400, "MISSING_PARAM");
    }
    for (body, field) in [
        (r#"{"name":"a","name":"b"}"#, "name must be given once"),
        (r#"{"name":null,"name":"b"}"#, "name must be given once"),
        (r#"{"name":"b","n\u0061me":"b"}"#, "name must be given once"),
        (r#"{"s3cret":1,"s3cret":1}"#, "body has an unknown field"),
    ] {
        let response = alice.send(Method::POST, "/api-keys", Some(body.to_owned())).await;
        response.assert_refused(400, "MISSING_PARAM");
        let text = response.json()["error"].as_str().unwrap().to_owned();
        assert!(text.starts_with(field) && !text.contains("s3cret"), "{body}: {text}");
    }
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(20_000));
    alice.send(Method::POST, "/api-keys", Some(long)).await.assert_refused(400, "MISSING_PARAM");
    assert!(alice.list().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_another_content_type_is_refused() {
    let (alice, _replica, _database) = alice().await;
    let body = json!({ "name": "ci" }).to_string();
    for (kinds, status) in [
        (&["application/json"][..], 201),
        (&["Application/JSON; charset=utf-8"], 201),
        (&[], 415),
        (&[""], 415),
        (&["text/plain"], 415),
        (&["application/x-www-form-urlencoded"], 415),
        (&["multipart/form-data; boundary=x"], 415),
        (&["application/jsonp"], 415),
        (&["application/json", "text/plain"], 415),
    ] {
        let response = alice.send_as(kinds, "/api-keys", &body).await;
        assert_eq!(response.status.as_u16(), status, "{kinds:?}: {response:?}");
        if status == 415 {
            response.assert_refused(415, "UNSUPPORTED_MEDIA_TYPE");
            assert!(response.text.contains("application/json"), "{response:?}");
        }
    }
    assert_eq!(alice.list().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_in_the_query_are_named() {
    let (alice, _replica, _database) = alice().await;
    for query in [
        "limit=0",
        "limit=1001",
        "limit=",
        "limit=+5",
        "limit=1&limit=1",
        "offset=-1",
        "offset=x",
        "offset=2147483648",
        "all=yes",
        "all=",
    ] {
        let response = alice.get(&format!("/api-keys?{query}")).await;
        response.assert_refused(400, "MISSING_PARAM");
        let text = response.json()["error"].as_str().unwrap().to_owned();
        assert!(text.starts_with(query.split('=').next().unwrap()), "{query}: {text}");
    }
    let page = alice.get("/api-keys?unknown=1&limit=1000&offset=2147483647&all=false").await;
    assert_eq!(page.json(), json!({ "data": [], "total": 0, "has_more": false }));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_prefix_changes_nothing_and_is_not_repeated() {
    let (alice, _replica, _database) = alice().await;
    let key = alice.create("ci").await;
    let other = ApiKey::generate().unwrap().expose().to_owned();
    let secret = key.split('_').nth(2).unwrap();
    for prefix in ["", "gr_", "gr_a", "%", "gr_%%%%", "____", &key, &other, secret, &key[..12]] {
        for path in ["/api-keys/revoke", "/api-keys/rotate"] {
            let response = alice.post(path, &json!({ "prefix": prefix })).await;
            response.assert_refused(400, "INVALID_PREFIX");
            assert!(response.text.contains("never give the whole key"), "{response:?}");
            assert!(
                !response.text.contains(secret) && !response.text.contains(&other),
                "{response:?}"
            );
        }
    }
    for body in [json!({}), json!({ "prefix": null }), json!({ "prefix": 5 })] {
        alice.post("/api-keys/revoke", &body).await.assert_refused(400, "MISSING_PARAM");
    }
    let update = json!({ "prefix": &key, "name": "new" });
    let refused = alice.post("/api-keys/update", &update).await;
    refused.assert_refused(400, "INVALID_PREFIX");
    assert!(!refused.text.contains(secret), "{refused:?}");
    for overlap in [json!(-1), json!("24h"), json!(31_536_001)] {
        let body = json!({ "prefix": &key[..11], "overlap_s": overlap });
        alice.post("/api-keys/rotate", &body).await.assert_refused(400, "MISSING_PARAM");
    }
    let listed = alice.list().await;
    assert_eq!((listed.len(), listed[0]["status"].as_str()), (1, Some("active")));
}
