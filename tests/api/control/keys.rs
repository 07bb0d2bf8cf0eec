//! Keys: each user sees and changes only their own.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use gene_registry::registry::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::Client;

use super::replica;
use crate::support::control::{ControlClient, new_token, prefix};
use crate::support::database::Database;
use crate::support::replica::Replica;
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(20);

struct Users {
    alice: ControlClient,
    bob: ControlClient,
    olga: ControlClient,
    replica: Replica,
    database: Database<'static>,
}

/// Two users and an operator.
async fn users() -> Users {
    let mut tokens = Vec::new();
    let (replica, database) = replica(|config| {
        tokens = ["alice", "bob", "olga"].map(|user| new_token(config, user)).into();
        config.control.operators = vec!["olga".to_owned()];
    })
    .await;
    let client = |at: usize| ControlClient::new(&replica, Some(tokens[at].as_str()));
    Users { alice: client(0), bob: client(1), olga: client(2), replica, database }
}

/// Names with all kinds of characters.
const NAMES: [&str; 9] = [
    "ci",
    " spaced  out ",
    "quotes ' \" ` \\ $$ --",
    "%_%",
    "مفتاح الإنتاج",
    "🧬👩‍👩‍👧‍👦",
    "e\u{301}é",
    "<script>alert(1)</script>",
    "'); DROP TABLE registry.api_key; --",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_works_and_is_listed_without_its_secret() {
    let Users { alice, replica, database: _database, .. } = users().await;
    let spec = json!({
        "name": "ci", "scopes": ["read", "write"], "rate_limit_per_minute": 77,
        "expires_at": "2999-12-31T23:59:59+02:00",
    });
    let response = alice.post("/api-keys", &spec).await;
    assert_eq!((response.status.as_u16(), response.header("cache-control")), (201, "no-store"));
    let mut made = response.json();
    let key = made.as_object_mut().unwrap().remove("key").unwrap().as_str().unwrap().to_owned();
    assert_eq!(made["prefix"], prefix(&key));
    for (field, value) in [
        ("owner", json!("alice")),
        ("name", json!("ci")),
        ("scopes", json!(["read", "write"])),
        ("rate_limit_per_minute", json!(77)),
        ("expires_at", json!("2999-12-31T21:59:59Z")),
        ("revoked_at", Value::Null),
        ("last_used_at", Value::Null),
        ("request_count", json!(0)),
        ("status", json!("active")),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    let served = replica.get("/genes", Some(&key)).await;
    assert_eq!((served.status.as_u16(), served.header("x-ratelimit-limit")), (200, "77"));
    let listed = alice.get("/api-keys").await;
    assert_eq!(listed.json(), json!({ "data": [made], "total": 1, "has_more": false }));
    assert!(!listed.text.contains(&key[12..]));

    let by_default = alice.post("/api-keys", &json!({ "name": "x", "expires_at": null })).await;
    let by_default = by_default.json();
    assert_eq!(by_default["scopes"], json!(["read"]));
    assert_eq!(
        (&by_default["rate_limit_per_minute"], &by_default["expires_at"]),
        (&json!(30), &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_kept_as_they_were_given() {
    let Users { alice, replica: _replica, database: _database, .. } = users().await;
    let longest = "🧬".repeat(200);
    for name in NAMES.into_iter().chain([longest.as_str()]) {
        let made = alice.post("/api-keys", &json!({ "name": name })).await;
        assert_eq!(made.json()["name"], name, "{made:?}");
    }
    let listed: HashSet<String> =
        alice.list().await.iter().map(|key| key["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, NAMES.into_iter().chain([longest.as_str()]).map(str::to_owned).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_users_key_is_like_one_that_does_not_exist() {
    let Users { alice, bob, olga, replica, database: _database, .. } = users().await;
    let key = alice.create("hers").await;
    assert!(bob.list().await.is_empty());
    for path in ["/api-keys/revoke", "/api-keys/rotate"] {
        let hers = bob.post(path, &json!({ "prefix": prefix(&key) })).await;
        let nobodys = bob.post(path, &json!({ "prefix": "gr_zzzzzzzz" })).await;
        hers.assert_refused(404, "NOT_FOUND");
        assert_eq!((hers.status, &hers.text), (nobodys.status, &nobodys.text));
        let names = |response: &crate::support::replica::Response| {
            let mut headers = response.headers.clone();
            headers.remove("x-request-id");
            headers.remove("date");
            headers
        };
        assert_eq!(names(&hers), names(&nobodys));
        let all = json!({ "prefix": prefix(&key), "all": true });
        bob.post(path, &all).await.assert_refused(403, "FORBIDDEN");
        // Not even an operator who did not ask for everybody's keys.
        let own = olga.post(path, &json!({ "prefix": prefix(&key) })).await;
        own.assert_refused(404, "NOT_FOUND");
    }
    bob.get("/api-keys?all=true").await.assert_refused(403, "FORBIDDEN");
    assert_eq!(alice.list().await[0]["status"], "active");
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_list_and_revoke_the_keys_of_all_users_on_request() {
    let Users { alice, bob, olga, replica, database: _database, .. } = users().await;
    let (hers, his) = (alice.create("hers").await, bob.create("his").await);
    assert!(olga.list().await.is_empty());
    let all = olga.get("/api-keys?all=true").await.json();
    let owners: Vec<_> =
        all["data"].as_array().unwrap().iter().map(|key| key["owner"].as_str()).collect();
    assert_eq!((owners, &all["total"]), (vec![Some("bob"), Some("alice")], &json!(2)));
    let spec = json!({ "prefix": prefix(&his), "all": true });
    let rotated = olga.post("/api-keys/rotate", &spec).await.json();
    assert_eq!(rotated["owner"], "bob", "the key keeps its owner");
    let spec = json!({ "prefix": prefix(&hers), "all": true });
    assert_eq!(olga.post("/api-keys/revoke", &spec).await.json()["status"], "revoked");
    eventually(TIMEOUT, "her key is refused", || async {
        replica.get("/genes", Some(&hers)).await.status == 401
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_twice_reports_the_first_time() {
    let Users { alice, replica: _replica, database: _database, .. } = users().await;
    let key = alice.create("ci").await;
    let mut revoked_at = Vec::new();
    for given in [prefix(&key), &key[3..11], &key[..7]] {
        let response = alice.post("/api-keys/revoke", &json!({ "prefix": given })).await;
        assert_eq!(
            (response.status.as_u16(), &response.json()["status"]),
            (200, &json!("revoked"))
        );
        revoked_at.push(response.json()["revoked_at"].clone());
        // A second later, so that a changed time would show.
        let second = || Timestamp::now().as_second();
        let begun = second();
        eventually(TIMEOUT, "a second has passed", || async { second() > begun }).await;
    }
    assert!(revoked_at[0].is_string() && revoked_at.iter().all(|at| *at == revoked_at[0]));
}

async fn rename(client: &Client, key: &str, to: &str) {
    let sql = "update registry.api_key set prefix = $2 where prefix = $1";
    assert_eq!(client.execute(sql, &[&prefix(key), &to]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ambiguous_prefix_changes_no_key() {
    let Users { alice, bob, replica: _replica, database, .. } = users().await;
    let (one, other) = (alice.create("one").await, alice.create("other").await);
    let his = bob.create("his").await;
    let client = database.connect().await;
    for (key, to) in [(&one, "gr_AAAAbbbb"), (&other, "gr_AAAAbbbc"), (&his, "gr_AAAAbbbd")] {
        rename(&client, key, to).await;
    }
    for path in ["/api-keys/revoke", "/api-keys/rotate"] {
        let response = alice.post(path, &json!({ "prefix": "AAAAbbb" })).await;
        let body = response.json();
        assert_eq!((response.status.as_u16(), body["code"].as_str()), (409, Some("AMBIGUOUS")));
        let candidates = body["candidates"].as_array().unwrap();
        let prefixes: Vec<_> = candidates.iter().map(|key| &key["prefix"]).collect();
        assert_eq!(prefixes, ["gr_AAAAbbbb", "gr_AAAAbbbc"], "only her own");
    }
    assert!(alice.list().await.iter().all(|key| key["status"] == "active"));
    // The keys of another user do not make hers ambiguous.
    let response = bob.post("/api-keys/revoke", &json!({ "prefix": "AAAA" })).await;
    assert_eq!((response.status.as_u16(), &response.json()["name"]), (200, &json!("his")));
    let response = alice.post("/api-keys/revoke", &json!({ "prefix": "gr_AAAAbbbc" })).await;
    assert_eq!(response.json()["name"], "other");
    let active = alice.list().await.into_iter().find(|key| key["status"] == "active");
    assert_eq!(active.unwrap()["name"], "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_keys_are_listed_page_by_page_newest_first() {
    let Users { alice, bob, replica: _replica, database, .. } = users().await;
    let newest = alice.create("newest").await;
    let sql = "insert into registry.api_key (key_hash, prefix, owner, name, created_at)
        select sha256(n::text::bytea), 'gr_' || lpad(n::text, 8, '0'), 'alice', 'key ' || n,
            now() - n * interval '1 minute'
        from generate_series(1, 1000) n";
    assert_eq!(database.connect().await.execute(sql, &[]).await.unwrap(), 1000);
    let begun = Instant::now();
    let mut names = Vec::new();
    loop {
        let response = alice.get(&format!("/api-keys?limit=99&offset={}", names.len())).await;
        let page = response.json();
        assert_eq!(page["total"], 1001);
        let data = page["data"].as_array().unwrap();
        names.extend(data.iter().map(|key| key["name"].as_str().unwrap().to_owned()));
        assert_eq!(page["has_more"], names.len() < 1001, "{}", names.len());
        if page["has_more"] == false {
            break;
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let expected = (1..=1000).map(|number| format!("key {number}"));
    let expected: Vec<_> = std::iter::once("newest".to_owned()).chain(expected).collect();
    assert_eq!(names, expected);
    assert_eq!(alice.get("/api-keys").await.json()["data"].as_array().unwrap().len(), 100);
    let last = alice.post("/api-keys/revoke", &json!({ "prefix": "gr_00001000" })).await;
    assert_eq!(last.json()["name"], "key 1000");
    let one = alice.post("/api-keys/revoke", &json!({ "prefix": prefix(&newest) })).await;
    assert_eq!(one.json()["name"], "newest");
    let several = alice.post("/api-keys/revoke", &json!({ "prefix": "0000" })).await.json();
    assert_eq!(several["candidates"].as_array().unwrap().len(), 100);
    assert!(bob.list().await.is_empty());
}
