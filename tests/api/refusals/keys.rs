//! Every invalid key gets the same 401.

use gene_registry::keys::ApiKey;
use gene_registry::registry::Timestamp;
use tokio_postgres::types::ToSql;

use super::{OPERATIONS, RefusalSetup, assert_refusal};
use crate::support::redis::RedisServer;

/// Header values with each kind of invalid key.
async fn wrong_keys(setup: &RefusalSetup) -> Vec<(&'static str, Vec<String>)> {
    let database = &setup.database;
    let hour = jiff::SignedDuration::from_hours(1);
    let expired = Some(Timestamp::now() - hour);
    let expired = database.new_key_with(|key| key.spec.expires_at = expired).await;
    let no_scope = database.new_key_with(|key| key.spec.scopes = vec![]).await;
    let other_scope =
        database.new_key_with(|key| key.spec.scopes = vec!["reader".to_owned()]).await;
    let revoked = database.new_key(100).await;
    let revoke = "update registry.api_key set revoked_at = now() where prefix = $1";
    database.connect().await.execute(revoke, &[&&revoked[..11]]).await.unwrap();
    let unknown = ApiKey::generate().unwrap().expose().to_owned();
    let namesake = ApiKey::generate().unwrap();
    let named = database.new_key(100).await;
    let rename = "update registry.api_key set prefix = $1 where prefix = $2";
    let names: [&(dyn ToSql + Sync); 2] = [&namesake.prefix(), &&named[..11]];
    assert_eq!(database.connect().await.execute(rename, &names).await.unwrap(), 1);
    let good = &setup.key;
    let mistyped = format!("{}{}", &good[..49], if good.ends_with('0') { '1' } else { '0' });
    vec![
        ("no key", vec![]),
        ("an empty key", vec![String::new()]),
        ("a key sent twice", vec![good.clone(), good.clone()]),
        ("a good and an empty key", vec![good.clone(), String::new()]),
        ("two keys in one header", vec![format!("{good}, {good}")]),
        ("a mistyped key", vec![mistyped]),
        ("the beginning of a key", vec![good[..11].to_owned()]),
        ("a key in another case", vec![good.to_uppercase()]),
        ("a key with a scheme", vec![format!("ApiKey {good}")]),
        ("a long key", vec!["k".repeat(20_000)]),
        ("a key beyond ASCII", vec!["gr_ключ".to_owned()]),
        ("an external key", vec!["0123456789abcdef0123456789abcdef".to_owned()]),
        ("an unknown key", vec![unknown]),
        ("a known prefix with another rest", vec![namesake.expose().to_owned()]),
        ("an expired key", vec![expired]),
        ("a revoked key", vec![revoked]),
        ("a key without scopes", vec![no_scope]),
        ("a key with another scope", vec![other_scope]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_invalid_key_gets_the_same_401_on_every_operation() {
    let setup = RefusalSetup::start().await;
    let mut bodies = std::collections::HashSet::new();
    for (what, values) in wrong_keys(&setup).await {
        let headers: Vec<_> = values.iter().map(|value| ("X-API-Key", value.as_str())).collect();
        for replica in &setup.replicas {
            for operation in OPERATIONS {
                let response = replica.raw("GET", &format!("/v1{operation}"), &headers).await;
                assert_eq!(response.status, 401, "{what}, {operation}: {response:?}");
                assert_refusal(&response, 401, "UNAUTHORIZED");
                let challenge = response.header("www-authenticate");
                assert_eq!(challenge, r#"ApiKey realm="gene-registry""#, "{what}");
                assert_eq!(response.header("ratelimit"), "", "{what}: limits are not revealed");
                bodies.insert(response.text);
            }
        }
    }
    assert_eq!(bodies.len(), 1, "{bodies:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_url_or_another_header_is_ignored() {
    let setup = RefusalSetup::start().await;
    let (key, bearer) = (&setup.key, format!("Bearer {}", setup.key));
    for replica in &setup.replicas {
        for name in ["api_key", "X-API-Key", "key"] {
            let response = replica.raw("GET", &format!("/v1/genes?{name}={key}"), &[]).await;
            assert_refusal(&response, 401, "UNAUTHORIZED");
            assert!(!response.text.contains(key.as_str()));
        }
        let response = replica.raw("GET", "/v1/genes", &[("Authorization", &bearer)]).await;
        assert_refusal(&response, 401, "UNAUTHORIZED");
        let response = replica.raw("GET", "/v1/genes", &[("x-api-key", key)]).await;
        assert_eq!(response.status, 200, "names of headers are case-insensitive: {response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requests_with_a_valid_key_write_to_redis() {
    let setup = RefusalSetup::start().await;
    let [replica, _] = &setup.replicas;
    for (_, values) in wrong_keys(&setup).await {
        let headers: Vec<_> = values.iter().map(|value| ("X-API-Key", value.as_str())).collect();
        replica.raw("GET", "/v1/genes", &headers).await;
    }
    for target in ["/", "/docs", "/openapi.json", "/v1/openapi.yaml", "/v1/none"] {
        assert_ne!(replica.raw("GET", target, &[("X-API-Key", &setup.key)]).await.status, 401);
    }
    let redis = RedisServer::shared().await;
    assert_eq!(redis.keys(&setup.prefix).await, [""; 0]);
    assert_eq!(replica.raw_get("/genes?limit=0", &setup.key).await.status, 400);
    assert_eq!(redis.keys(&setup.prefix).await.len(), 1, "a counter, for an error too");
}
