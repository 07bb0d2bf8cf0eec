//! A standby whose replay pauses and resumes.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{TIMEOUT, fleet, reads, wait_for_use, without_caches};
use crate::currency::{
    DOMAIN, assert_change_visible, assert_same, assert_visible, genes_of, paths_of, responses,
};
use crate::support::need_own_servers;
use crate::support::replica::Replica;
use crate::support::standby::primary;
use crate::support::wait::{eventually, visible_within};

const VISIBLE_WITHIN: Duration = Duration::from_secs(2);

/// Long enough for several polls.
const SEVERAL_POLLS: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_a_standby_lacks_is_visible_within_two_seconds() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let fleet = fleet(2, &primary, &[&standby], |_, _| {}).await;
    let client = fleet.database.connect().await;
    let key = fleet.database.new_key(1_000_000).await;
    let revoked = fleet.database.new_key(1_000_000).await;
    let genes = genes_of(&client, DOMAIN).await;
    let (paths, mut plain) = (paths_of(&genes), fleet.config.clone());
    plain.upstream.read_urls.clear();
    without_caches(&mut plain);
    let uncached_replica = Replica::start(&plain).await;
    primary.wait_for_replay(&standby).await;

    // Both caches are filled from a standby that has paused already.
    standby.pause_replay().await;
    for replica in &fleet.replicas {
        responses(replica, &key, &paths).await;
        assert_eq!(replica.get("/genes", Some(&revoked)).await.status, 200);
    }
    assert!(reads(&fleet.replicas[0], "answered").await > 0.0);

    let sql = "update registry.gene set published = false where id = $1::text::uuid";
    assert_eq!(client.execute(sql, &[&genes[0]]).await.unwrap(), 1);
    let sql = "update registry.gene set name = 'renamed' where id = $1::text::uuid";
    assert_eq!(client.execute(sql, &[&genes[1]]).await.unwrap(), 1);
    let prefix = &revoked[..11];
    let sql = "update registry.api_key set revoked_at = now() where prefix = $1";
    assert_eq!(client.execute(sql, &[&prefix]).await.unwrap(), 1);
    let committed = Instant::now();
    let expected = responses(&uncached_replica, &key, &paths).await;

    assert_visible(
        &fleet.replicas,
        &key,
        &paths,
        &expected,
        committed,
        "the standby does not have the change",
    )
    .await;
    for replica in &fleet.replicas {
        visible_within(committed, VISIBLE_WITHIN, "the key is refused", || async {
            let found = replica.get("/genes", Some(&revoked)).await.status;
            if found == 401 { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
    }
    // That remains so while the standby is paused, also for a new replica, whose first poll of the
    // primary is ahead of the standby.
    let late = Replica::start(&fleet.config).await;
    eventually(TIMEOUT, "the replica is ready", || async {
        late.ops("/readyz").await.status == 200
    })
    .await;
    let until = Instant::now() + SEVERAL_POLLS;
    while Instant::now() < until {
        for replica in fleet.replicas.iter().chain([&late]) {
            assert_same(&responses(replica, &key, &paths).await, &expected, &paths);
            assert_eq!(replica.get("/genes", Some(&revoked)).await.status, 401);
        }
    }
    let mut stale_reads = 0.0;
    for (replica, limit) in fleet.replicas.iter().zip(7..) {
        // No cache has this yet, so the standby is read first.
        let cold = format!("/genes?domain={DOMAIN}&limit={limit}");
        assert!(!replica.get(&cold, Some(&key)).await.text.contains(&genes[0]));
        stale_reads += reads(replica, "behind").await;
    }
    assert!(stale_reads > 0.0, "no read of the standby was found to be stale");

    standby.resume_replay().await;
    primary.wait_for_replay(&standby).await;
    let sql = "update registry.gene set description = 'later' where id = $1::text::uuid";
    eventually(3 * TIMEOUT, "the standby is read again, and is up to date", || async {
        let before = reads(&fleet.replicas[0], "answered").await;
        client.execute(sql, &[&genes[1]]).await.unwrap();
        let replicas = &fleet.replicas;
        assert_change_visible(replicas, &key, &paths, &uncached_replica, "the replica continues")
            .await;
        reads(&fleet.replicas[0], "answered").await > before
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_standby_is_not_read_and_health_and_metrics_show_it() {
    need_own_servers!();
    let primary = primary().await;
    let [paused, well] = [primary.start_standby().await, primary.start_standby().await];
    let fleet = fleet(1, &primary, &[&paused, &well], |config, _| {
        without_caches(config);
        config.upstream.max_lag_ms = 5_000;
    })
    .await;
    let (client, replica) = (fleet.database.connect().await, &fleet.replicas[0]);
    let key = fleet.database.new_key(1_000_000).await;
    let standbys = || async { replica.ops("/readyz").await.json()["standbys"].clone() };
    assert_eq!(standbys().await, json!(["up", "up"]));

    paused.pause_replay().await;
    // There must be something to replay: a standby of an idle primary does not lag.
    client.batch_execute("update registry.gene set downloads = downloads + 1").await.unwrap();
    wait_for_use(replica, 1, false).await;

    let ready = replica.ops("/readyz").await.json();
    assert_eq!((&ready["standbys"], &ready["primary"]), (&json!(["down", "up"]), &json!("up")));
    let lag = |number: u32| format!("gene_registry_standby_lag_seconds{{standby=\"{number}\"}}");
    assert!(replica.metric(&lag(1)).await.unwrap() > 5.0);
    assert!(replica.metric(&lag(2)).await.unwrap() < 5.0);
    let before = reads(replica, "answered").await;
    for _ in 0..20 {
        assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    }
    assert_eq!(reads(replica, "answered").await, before);

    paused.resume_replay().await;
    wait_for_use(replica, 1, true).await;
    assert!(replica.metric(&lag(1)).await.unwrap() < 5.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_never_go_back_in_time() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let fleet = fleet(1, &primary, &[&standby], |config, _| {
        config.cache.phenotype.fresh_s = 0;
        config.cache.phenotype.stale_s = 0;
    })
    .await;
    let (client, replica) = (fleet.database.connect().await, &fleet.replicas[0]);
    let key = fleet.database.new_key(1_000_000).await;
    let gene = genes_of(&client, DOMAIN).await.swap_remove(0);
    let path = format!("/genes/{gene}/phenotype");
    // The change log does not contain scores, so only the order of reads counts.
    let set = "update registry.gene set reputation_score = $2::float8 where id = $1::text::uuid";
    let reputation = |response: &crate::support::replica::Response| {
        response.json()["reputation_score"].as_f64().unwrap()
    };

    let mut before = 0.0;
    for round in 1..=3 {
        standby.pause_replay().await;
        let score = 1_000.0 * f64::from(round);
        client.execute(set, &[&gene, &score]).await.unwrap();
        // The standby is unavailable for a moment, so the primary is read; it has the new score.
        standby.pause();
        eventually(TIMEOUT, "the primary was read", || async {
            reputation(&replica.get(&path, Some(&key)).await) == score
        })
        .await;
        standby.resume();
        wait_for_use(replica, 1, true).await;
        // The standby's value is older than the cached one, so it may not keep that from ageing.
        let score = score + 1.0;
        client.execute(set, &[&gene, &score]).await.unwrap();
        eventually(TIMEOUT, "the primary is read, since the standby lags", || async {
            reputation(&replica.get(&path, Some(&key)).await) == score
        })
        .await;
        before = f64::max(before, score);
        let until = Instant::now() + SEVERAL_POLLS;
        while Instant::now() < until {
            let response = replica.get(&path, Some(&key)).await;
            assert_eq!(response.status, 200, "{response:?}");
            assert!(reputation(&response) >= before, "back to an earlier state: {response:?}");
        }
        standby.resume_replay().await;
        primary.wait_for_replay(&standby).await;
        wait_for_use(replica, 1, true).await;
    }
}
