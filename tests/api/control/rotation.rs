//! Rotation: a new key with the same settings; the old one ends after the overlap.

use std::time::Duration;

use gene_registry::registry::Timestamp;
use serde_json::{Value, json};

use super::replica;
use crate::support::control::{ControlClient, new_token, prefix};
use crate::support::database::Database;
use crate::support::replica::Replica;
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(20);

async fn alice() -> (ControlClient, Replica, Database<'static>) {
    let mut token = String::new();
    let (replica, database) = replica(|config| token = new_token(config, "alice")).await;
    (ControlClient::new(&replica, Some(&token)), replica, database)
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

fn seconds_between(earlier: &Value, later: &Value) -> i64 {
    time(later).as_second() - time(earlier).as_second()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_new_key_has_the_same_settings_and_the_old_one_works_for_the_overlap() {
    let (alice, replica, _database) = alice().await;
    let end = Timestamp::now() + jiff::SignedDuration::from_hours(48);
    let body = json!({
        "name": "ci \"1\"", "scopes": ["read", "x"], "rate_limit_per_minute": 55,
        "expires_at": end.to_string(),
    });
    let old = alice.post("/api-keys", &body).await.json();
    let old_key = old["key"].as_str().unwrap();
    let response = alice.post("/api-keys/rotate", &json!({ "prefix": prefix(old_key) })).await;
    assert_eq!(response.status, 201, "{response:?}");
    let new = response.json();
    let new_key = new["key"].as_str().unwrap();
    assert_ne!(new_key, old_key);
    for same in ["owner", "name", "scopes", "rate_limit_per_minute"] {
        assert_eq!(new[same], old[same], "{same}");
    }
    assert_eq!(new["status"], "active");
    let lifetime = seconds_between(&new["created_at"], &new["expires_at"]);
    assert!((48 * 3_600 - 120..=48 * 3_600 + 1).contains(&lifetime), "{lifetime}");
    let overlap = seconds_between(&new["created_at"], &new["replaced"]["expires_at"]);
    assert_eq!((overlap, &new["replaced"]["prefix"]), (86_400, &old["prefix"]), "a day");
    for key in [old_key, new_key] {
        let served = replica.get("/genes", Some(key)).await;
        assert_eq!((served.status.as_u16(), served.header("x-ratelimit-limit")), (200, "55"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_overlap_the_old_key_ends_at_once_and_can_not_be_rotated_again() {
    let (alice, replica, _database) = alice().await;
    let old = alice.create("ci").await;
    assert_eq!(replica.get("/genes", Some(&old)).await.status, 200);
    let rotate = json!({ "prefix": prefix(&old), "overlap_s": 0 });
    let new = alice.post("/api-keys/rotate", &rotate).await.json();
    assert_eq!((&new["replaced"]["status"], &new["expires_at"]), (&json!("expired"), &Value::Null));
    eventually(TIMEOUT, "the old key is refused", || async {
        replica.get("/genes", Some(&old)).await.status == 401
    })
    .await;
    assert_eq!(replica.get("/genes", new["key"].as_str()).await.status, 200);
    let again = alice.post("/api-keys/rotate", &rotate).await;
    let body = again.json();
    assert_eq!((again.status.as_u16(), body["code"].as_str()), (409, Some("ALREADY_ROTATED")));
    assert_eq!(body["successor"]["prefix"], new["prefix"]);
    let revoked = json!({ "prefix": new["prefix"] });
    assert_eq!(alice.post("/api-keys/revoke", &revoked).await.status, 200);
    alice.post("/api-keys/rotate", &revoked).await.assert_refused(409, "NOT_ACTIVE");
    alice.post("/api-keys/rotate", &rotate).await.assert_refused(409, "NOT_ACTIVE");
    assert_eq!(alice.list().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overlap_never_prolongs_a_key() {
    let (alice, _replica, _database) = alice().await;
    let end = Timestamp::now() + jiff::SignedDuration::from_mins(30);
    let body = json!({ "name": "ci", "expires_at": end.to_string() });
    let old = alice.post("/api-keys", &body).await.json();
    let new = alice.post("/api-keys/rotate", &json!({ "prefix": old["prefix"] })).await.json();
    assert_eq!(new["replaced"]["expires_at"], old["expires_at"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_concurrent_rotations_returns_a_key_and_the_others_name_it() {
    let (alice, replica, _database) = alice().await;
    for (overlap_s, active) in [(0, 1), (3600, 2)] {
        let old = alice.create(&overlap_s.to_string()).await;
        let body = json!({ "prefix": prefix(&old), "overlap_s": overlap_s });
        let (one, other) = tokio::join!(
            alice.post("/api-keys/rotate", &body),
            alice.post("/api-keys/rotate", &body)
        );
        let (made, late) = if one.status == 201 { (one, other) } else { (other, one) };
        assert_eq!((made.status.as_u16(), late.status.as_u16()), (201, 409), "{late:?}");
        assert_eq!(late.json()["code"], "ALREADY_ROTATED");
        assert_eq!(late.json()["successor"]["prefix"], made.json()["prefix"]);
        let listed = alice.list().await;
        let is_active = |key: &&Value| {
            key["status"] == "active" && key["name"] == overlap_s.to_string().as_str()
        };
        assert_eq!(listed.iter().filter(is_active).count(), active);
        assert_eq!(replica.get("/genes", made.json()["key"].as_str()).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rotation_on_an_older_schema_fails_with_the_remedy() {
    let (alice, _replica, database) = alice().await;
    let old = alice.create("ci").await;
    let older =
        "alter table registry.api_key drop column replaced_by, drop column first_expires_at";
    database.connect().await.batch_execute(older).await.unwrap();
    let response = alice.post("/api-keys/rotate", &json!({ "prefix": prefix(&old) })).await;
    response.assert_refused(503, "KEYS_READ_ONLY");
    assert!(response.text.contains("gene-registry migrate"), "{response:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_that_fails_midway_leaves_the_old_key_as_it_was() {
    let (alice, _replica, database) = alice().await;
    let old = alice.create("ci").await;
    let forbid = "create function no_end() returns trigger language plpgsql as
            $$ begin raise exception 'no'; end $$;
        create trigger no_end before update on registry.api_key
            for each row execute function no_end()";
    database.connect().await.batch_execute(forbid).await.unwrap();
    let response = alice.post("/api-keys/rotate", &json!({ "prefix": prefix(&old) })).await;
    response.assert_refused(502, "DB_ERROR");
    let listed = alice.list().await;
    assert_eq!((listed.len(), &listed[0]["expires_at"]), (1, &Value::Null));
}
