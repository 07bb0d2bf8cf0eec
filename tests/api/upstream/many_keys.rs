//! Look-ups of several keys in one statement.

use std::sync::Arc;

use futures_util::future::join_all;
use gene_registry::keys::{ApiKey, AuthDenied, Authenticator, NotAuthenticated};
use gene_registry::net::RequestSource;
use gene_registry::ops::Metrics;
use gene_registry::registry::KeyHash;
use gene_registry::upstream::{RegistryReader, UpstreamClient};

use super::database::fresh_database;

/// An existing registry whose keys have their expiry as text.
const EXISTING_TABLES: &str = "
    CREATE SCHEMA foreign_keys;
    CREATE TABLE foreign_keys.api_key (key_hash bytea PRIMARY KEY, expires_at text);
    CREATE OR REPLACE VIEW registry_read.api_key AS
        SELECT key_hash, 'p'::text AS prefix, 'o'::text AS owner, 'n'::text AS name,
            '{read}'::text[] AS scopes, 30 AS rate_limit_per_minute, now() AS created_at,
            expires_at::timestamptz AS expires_at, NULL::timestamptz AS revoked_at
        FROM foreign_keys.api_key;";

#[tokio::test]
async fn records_are_returned_in_the_requested_order_with_duplicates() {
    let database = fresh_database().await;
    let client = database.client().await;
    client
        .batch_execute("INSERT INTO registry.owner (handle) VALUES ('o')")
        .await
        .expect("an owner");
    let hash = |byte| KeyHash([byte; 32]);
    for byte in [1, 2, 3] {
        let insert = "INSERT INTO registry.api_key (key_hash, prefix, owner, name, scopes,
            rate_limit_per_minute) VALUES ($1, $2, 'o', $2, '{read}', 7)";
        let prefix = format!("gr_0000000{byte}");
        client.execute(insert, &[&hash(byte).0.as_slice(), &prefix]).await.expect("a key");
    }
    let requested = [3, 9, 1, 3, 2].map(hash);
    let read = database.upstream().api_keys(&requested).await.expect("a read");
    let prefixes = read.value.iter().map(|record| record.as_ref().map(|it| it.prefix.as_str()));
    let expected =
        [Some("gr_00000003"), None, Some("gr_00000001"), Some("gr_00000003"), Some("gr_00000002")];
    assert_eq!(prefixes.collect::<Vec<_>>(), expected);
    assert!(read.value.iter().flatten().zip([3, 1, 3, 2]).all(|(it, byte)| it.hash == hash(byte)));
    assert!(read.seen.snapshot.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_fails_a_statement_affects_no_other_key() {
    let database = fresh_database().await;
    let client = database.client().await;
    let drop = "DROP VIEW registry_read.api_key CASCADE";
    client.batch_execute(&format!("{drop}; {EXISTING_TABLES}")).await.expect("a view");
    let grant = "GRANT SELECT ON registry_read.api_key TO PUBLIC";
    client.batch_execute(grant).await.expect("rights");
    let keys: Vec<_> = (0..60).map(|_| ApiKey::generate().expect("a key")).collect();
    for (index, key) in keys.iter().enumerate() {
        let ends = if index == 30 { "one day" } else { "infinity" };
        let insert = "INSERT INTO foreign_keys.api_key VALUES ($1, $2)";
        client.execute(insert, &[&key.hash().0.as_slice(), &ends]).await.expect("a key");
    }
    let upstream = UpstreamClient::new(Arc::new(database.upstream()));
    let authenticator = Authenticator::new(upstream, false, None, Arc::new(Metrics::default()));
    let strange = ApiKey::generate().expect("a key");
    let all = keys.iter().chain([&strange]);
    let source = || RequestSource::of([127, 0, 0, 1].into());
    let checks = all.map(|key| authenticator.check([key.expose().as_bytes()].into_iter(), source));
    let checked = join_all(checks).await;
    for (index, found) in checked.iter().enumerate() {
        match index {
            30 => assert!(matches!(found, Err(NotAuthenticated::Unavailable(_))), "{found:?}"),
            60 => assert!(matches!(found, Err(NotAuthenticated::Denied(AuthDenied::Unknown)))),
            _ => assert!(found.is_ok(), "{index}: {found:?}"),
        }
    }
}
