//! Changes of a key through one replica's control listener apply on all replicas within two
//! seconds, with or without Redis. (Changes of scopes and limits, for which there is no command:
//! [`crate::currency`].)

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use crate::support::control::{ControlClient, new_token, prefix, with_control};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica};
use crate::support::wait::visible_within;

const VISIBLE_WITHIN: Duration = Duration::from_secs(2);
const PATH: &str = "/genes";

/// Fails if a request sent later than two seconds after `since` gets another status.
async fn assert_status_within_two_seconds(
    fleet: &Fleet<'_>,
    key: &str,
    status: u16,
    since: Instant,
) {
    let each = fleet.replicas.iter().map(|replica| async move {
        visible_within(since, VISIBLE_WITHIN, &format!("a replica answers {status}"), || async {
            let found = replica.get(PATH, Some(key)).await.status;
            if found == status { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
    });
    join_all(each).await;
}

async fn assert_known_to_all(fleet: &Fleet<'_>, key: &str) {
    for replica in &fleet.replicas {
        assert_eq!(replica.get(PATH, Some(key)).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_changes_apply_on_three_replicas_with_and_without_redis() {
    need_own_servers!();
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::start(&[]).await);
    let mut fleet =
        Fleet::start_with(0, postgres, &redis, |config| config.redis.timeout_ms = 5_000).await;
    with_control(&mut fleet.config, &fleet.database);
    let token = new_token(&mut fleet.config, "alice");
    fleet.config.rate_limit.replicas = 3;
    fleet.grow(3).await;
    let people: Vec<ControlClient> = fleet
        .replicas
        .iter()
        .map(|replica: &Replica| ControlClient::new(replica, Some(&token)))
        .collect();
    for without_redis in [false, true] {
        if without_redis {
            redis.kill().await;
        }
        let created = people[0].create("ci").await;
        assert_status_within_two_seconds(&fleet, &created, 200, Instant::now()).await;
        assert_known_to_all(&fleet, &created).await;

        let at_once = json!({ "prefix": prefix(&created), "overlap_s": 0 });
        let rotated = people[1].post("/api-keys/rotate", &at_once).await;
        let since = Instant::now();
        assert_eq!(rotated.status, 201, "{rotated:?}");
        let new = rotated.json()["key"].as_str().unwrap().to_owned();
        assert_status_within_two_seconds(&fleet, &created, 401, since).await;
        assert_status_within_two_seconds(&fleet, &new, 200, since).await;
        assert_known_to_all(&fleet, &new).await;

        let overlapping = json!({ "prefix": prefix(&new), "overlap_s": 6 });
        let rotated = people[2].post("/api-keys/rotate", &overlapping).await;
        let end = Instant::now() + Duration::from_secs(6);
        let newest = rotated.json()["key"].as_str().unwrap().to_owned();
        assert_status_within_two_seconds(&fleet, &newest, 200, Instant::now()).await;
        assert_known_to_all(&fleet, &new).await;
        tokio::time::sleep_until(end).await;
        assert_status_within_two_seconds(&fleet, &new, 401, end).await;
        assert_known_to_all(&fleet, &newest).await;

        let revoke = json!({ "prefix": prefix(&newest) });
        assert_eq!(people[0].post("/api-keys/revoke", &revoke).await.status, 200);
        assert_status_within_two_seconds(&fleet, &newest, 401, Instant::now()).await;
    }
}
