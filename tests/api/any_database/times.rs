//! Keys with any time that a column can hold: they work, and can be listed, revoked and rotated.

use serde_json::{Value, json};

use super::{ExistingRegistry, with_users};
use crate::commands::gene_registry;
use crate::support::control::{ControlClient, KEYS_ROLE, prefix};
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Replica, config, long_timeouts, sample};

/// Times of creation and expiry, and the status of the key.
const TIMES: [(&str, &str, &str); 8] = [
    ("2026-01-01", "9999-12-31", "active"),
    ("2026-01-01", "294276-12-31 23:59:59.999999+00", "active"),
    ("2026-01-01", "infinity", "active"),
    ("0044-03-15 BC", "10000-01-01", "active"),
    ("-infinity", "9999-12-31", "active"),
    ("infinity", "9999-12-31", "active"),
    ("4714-11-24 00:00:00+00 BC", "4714-11-24 00:00:00+00 BC", "expired"),
    ("2026-01-01", "-infinity", "expired"),
];

/// Checks that clients can parse each time.
fn assert_times(key: &Value) {
    for name in ["created_at", "expires_at", "revoked_at"] {
        if let Some(time) = key[name].as_str() {
            assert_eq!(time.len(), "2026-01-31T08:09:10Z".len(), "{name}: {key}");
            time.parse::<jiff::Timestamp>().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_with_any_time_work_and_can_be_listed_rotated_and_revoked() {
    let database = sample(PostgresServer::shared().await).await;
    let client = database.connect().await;
    let mut config = config(&database.url_as(READER), None);
    long_timeouts(&mut config);
    config.control.database_url = Some(database.url_as(KEYS_ROLE).into());
    config.control.operators = vec!["olga".to_owned()];
    let tokens = with_users(&mut config, &["olga"]);
    let mut keys = Vec::new();
    for (created, expires, _) in TIMES {
        let key = database.new_key(1_000).await;
        let update = format!(
            "update registry.api_key set created_at = '{created}', expires_at = '{expires}'
             where prefix = '{}'",
            prefix(&key)
        );
        client.batch_execute(&update).await.unwrap();
        keys.push(key);
    }
    let replica = Replica::start(&config).await;
    let olga = ControlClient::new(&replica, Some(&tokens[0]));

    let listed = olga.get("/api-keys?all=true").await;
    assert_eq!(listed.status, 200, "{listed:?}");
    for (key, (.., status)) in keys.iter().zip(TIMES) {
        let listed = listed.json();
        let listed = listed["data"].as_array().unwrap();
        let shown = listed.iter().find(|one| one["prefix"] == prefix(key)).unwrap();
        assert_eq!(shown["status"], status, "{shown}");
        assert_times(shown);
        let admitted = replica.get("/genes", Some(key)).await.status == 200;
        assert_eq!(admitted, status == "active", "{shown}");
    }
    let direct = ["api-key", "list", "--direct", "--all"];
    let listed = gene_registry(direct).env("DATABASE_URL", database.url()).start();
    assert!(
        listed.wait_exit(std::time::Duration::from_secs(30)).await.success(),
        "{}",
        listed.report()
    );

    for (key, (.., status)) in keys.iter().zip(TIMES) {
        if status == "active" {
            let body = json!({"prefix": prefix(key), "all": true, "overlap_s": 60});
            let rotated = olga.post("/api-keys/rotate", &body).await;
            assert_eq!(rotated.status, 201, "{rotated:?}");
            let rotated = rotated.json();
            let new = rotated["key"].as_str().unwrap();
            assert_eq!(replica.get("/genes", Some(new)).await.status, 200, "{rotated}");
        }
        let body = json!({"prefix": prefix(key), "all": true});
        let revoked = olga.post("/api-keys/revoke", &body).await;
        assert_eq!(revoked.status, 200, "{revoked:?}");
        assert_times(&revoked.json());
        assert_eq!(revoked.json()["status"], "revoked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_an_existing_registry_with_any_time_are_listed() {
    let database = PostgresServer::shared().await.create_database().await;
    let rows = TIMES.map(|(created, expires, _)| {
        format!("('x', 'alice', 7000000000, '{created}', '{expires}', '{created}')")
    });
    let rows = format!(
        "insert into registry_read.api_key
            (prefix, owner, rate_limit_per_minute, created_at, expires_at, revoked_at)
            values {}, (null, 'alice', null, null, null, null)",
        rows.join(", ")
    );
    let registry = ExistingRegistry::start(&database, "varchar", &rows, &["alice"]).await;

    let keys = registry.users[0].list().await;

    assert_eq!(keys.len(), TIMES.len() + 1);
    keys.iter().for_each(assert_times);
    assert_eq!(keys.iter().filter(|key| key["status"] == "active").count(), 1);
    assert_eq!(keys.iter().filter(|key| key["rate_limit_per_minute"] == 30).count(), 1);
}
