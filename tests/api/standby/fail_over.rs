//! The primary is killed, and a standby promoted.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{TIMEOUT, fleet, wait_for_use, without_caches};
use crate::currency::restored::TRANSACTIONS;
use crate::currency::{
    DOMAIN, always_fresh, assert_same, assert_visible, genes_of, paths_of, responses,
};
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::replica::{Fleet, READER, Replica};
use crate::support::standby::primary;
use crate::support::wait::{eventually, visible_within};

/// Within this time after the promotion all reads succeed again.
const RECOVERY_LIMIT: Duration = Duration::from_secs(10);

fn two_hosts(hosts: [&PostgresServer; 2], database: &str) -> String {
    let [first, second] = hosts.map(PostgresServer::addr);
    format!("postgres://{READER}@{first},{second}/{database}?target_session_attrs=primary")
}

/// The timeout that operators would set: a longer response counts as none.
fn short_timeouts(config: &mut gene_registry::config::Config) {
    (config.upstream.wait_ms, config.upstream.connect_ms) = (600, 1_000);
    (config.upstream.query_ms, config.upstream.deadline_ms) = (600, 2_000);
}

/// Sends requests until `done` completes. Panics at a response that is neither correct nor a
/// documented error.
async fn under_load<T>(replicas: &[Replica], key: &str, done: impl Future<Output = T>) -> T {
    let load = async {
        loop {
            let responses = replicas.iter().map(|replica| replica.get("/genes?limit=5", Some(key)));
            for response in join_all(responses).await {
                match response.status.as_u16() {
                    200 => {}
                    502 => response.assert_refused(502, "DB_ERROR"),
                    503 => response.assert_refused(503, "UNAVAILABLE"),
                    _ => panic!("{response:?}"),
                }
            }
        }
    };
    tokio::select! {
        done = done => done,
        () = load => unreachable!("the load never ends"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_resume_after_a_promotion_without_a_restart() {
    need_own_servers!();
    let first = primary().await;
    let second = first.start_standby().await;
    let fleet = fleet(2, &first, &[&second], |config, database| {
        without_caches(config);
        short_timeouts(config);
        config.upstream.url = Some(two_hosts([&first, &second], database.name()).into());
    })
    .await;
    let key = fleet.database.new_key(1_000_000).await;
    first.wait_for_replay(&second).await;
    for replica in &fleet.replicas {
        assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    }

    under_load(&fleet.replicas, &key, async {
        first.kill().await;
        second.promote().await;
        let promoted = Instant::now();
        for replica in &fleet.replicas {
            let left = RECOVERY_LIMIT.saturating_sub(promoted.elapsed());
            eventually(left, "the new primary is read", || async {
                let ready = replica.ops("/readyz").await.json();
                let responses = join_all((0..5).map(|_| replica.get("/genes", Some(&key)))).await;
                ready["primary"] == "up" && responses.iter().all(|response| response.status == 200)
            })
            .await;
        }
    })
    .await;

    // From now on, the new primary is the reference for every replica.
    let client = crate::support::postgres::connect(
        &second.url(fleet.database.name(), crate::support::postgres::SUPERUSER),
    )
    .await;
    let genes = genes_of(&client, DOMAIN).await;
    let path = [format!("/genes/{}/phenotype", genes[0])];
    let sql = "update registry.gene set published = false where id = $1::text::uuid";
    client.execute(sql, &[&genes[0]]).await.unwrap();
    let committed = Instant::now();
    for replica in &fleet.replicas {
        visible_within(committed, Duration::from_secs(2), "the gene is deleted", || async {
            let found = replica.get(&path[0], Some(&key)).await.status;
            if found == 404 { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_transactions_are_not_shown_after_the_promotion() {
    need_own_servers!();
    let first = primary().await;
    let stream = FaultProxy::start(first.addr()).await;
    let second = first.start_standby_through(stream.addr().port()).await;
    let fleet = fleet(2, &first, &[&second], |config, database| {
        short_timeouts(config);
        config.upstream.url = Some(two_hosts([&first, &second], database.name()).into());
    })
    .await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    first.wait_for_replay(&second).await;
    let genes = genes_of(&client, DOMAIN).await;
    let paths = paths_of(&genes);
    for replica in &fleet.replicas {
        responses(replica, &key, &paths).await;
    }

    // The standby receives nothing from now on: the next commit is read, cached, and then lost.
    stream.set(Mode::Refuse).await;
    let sql = "update registry.gene set name = 'lost', description = 'lost'";
    client.batch_execute(sql).await.unwrap();
    for replica in &fleet.replicas {
        eventually(TIMEOUT, "the edit is visible", || async {
            let found = responses(replica, &key, &paths).await;
            found.iter().filter(|(_, text)| text.contains("lost")).count() > paths.len() / 2
        })
        .await;
    }
    drop(client);
    first.kill().await;
    second.promote().await;
    let promoted = Instant::now();
    second.admin().await.batch_execute(TRANSACTIONS).await.unwrap();

    let mut config = fleet.config.clone();
    without_caches(&mut config);
    config.upstream.read_urls.clear();
    let expected = responses(&Replica::start(&config).await, &key, &paths).await;
    assert!(expected.iter().all(|(_, text)| !text.contains("lost")));
    for replica in &fleet.replicas {
        let left = RECOVERY_LIMIT.saturating_sub(promoted.elapsed());
        eventually(left, "no lost transaction is visible", || async {
            let responses = paths.iter().map(|path| replica.get(path, Some(&key)));
            let found = join_all(responses).await;
            found.iter().zip(&expected).all(|(response, (status, text))| {
                response.status.as_u16() == *status && response.text == *text
            })
        })
        .await;
        assert_eq!(replica.metric("gene_registry_history_switches_total").await, Some(1.0));
    }
    // Redis does not bring it back either.
    let late = Replica::start(&fleet.config).await;
    eventually(TIMEOUT, "the replica is ready", || async {
        late.ops("/readyz").await.status == 200
    })
    .await;
    assert_same(&responses(&late, &key, &paths).await, &expected, &paths);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_only_a_standby_reads_and_keys_work_and_known_changes_stay_known() {
    need_own_servers!();
    let first = primary().await;
    let standby = first.start_standby().await;
    // A stopped primary refuses at once, so short timeouts are enough to notice.
    let fleet = fleet(1, &first, &[&standby], |config, _| without_caches(config)).await;
    let client = fleet.database.connect().await;
    let [key, never_seen] =
        [fleet.database.new_key(1_000_000).await, fleet.database.new_key(1_000_000).await];
    let replica = &fleet.replicas[0];
    let genes = genes_of(&client, DOMAIN).await;
    let phenotype = |at: usize| format!("/genes/{}/phenotype", genes[at]);
    first.wait_for_replay(&standby).await;
    assert_eq!(replica.get(&phenotype(0), Some(&key)).await.status, 200);

    standby.pause_replay().await;
    let sql = "update registry.gene set published = false where id = $1::text::uuid";
    client.execute(sql, &[&genes[0]]).await.unwrap();
    eventually(TIMEOUT, "the gene is deleted", || async {
        replica.get(&phenotype(0), Some(&key)).await.status == 404
    })
    .await;
    drop(client);
    first.kill().await;
    eventually(TIMEOUT, "the primary is known to be unavailable", || async {
        replica.ops("/readyz").await.json()["primary"] == "down"
    })
    .await;

    // Until the position of the standby is known, an unknown key cannot be judged.
    eventually(RECOVERY_LIMIT, "reads resume", || async {
        replica.get(&phenotype(1), Some(&never_seen)).await.status == 200
    })
    .await;
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        let other = replica.get(&phenotype(1), Some(&key)).await;
        assert_eq!(other.status, 200, "{other:?}");
        assert_eq!(replica.get(&phenotype(1), Some(&never_seen)).await.status, 200);
        // The standby still has the key, but the replica knows that it is revoked.
        let gone = replica.get(&phenotype(0), Some(&key)).await;
        assert_ne!(gone.status, 200, "{gone:?}");
    }
    assert_eq!(replica.ops("/readyz").await.json()["upstream"], "up");

    standby.resume_replay().await;
    eventually(TIMEOUT, "the standby has the change too", || async {
        replica.get(&phenotype(0), Some(&key)).await.status == 404
    })
    .await;
    first.restart().await;
    eventually(TIMEOUT, "the primary is available again", || async {
        replica.ops("/readyz").await.json()["primary"] == "up"
    })
    .await;
    wait_for_use(replica, 1, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_starts_with_only_a_standby_serves() {
    need_own_servers!();
    let first = primary().await;
    let standby = first.start_standby().await;
    let mut fleet = fleet(0, &first, &[], |_, _| {}).await;
    always_fresh(&mut fleet.config);
    short_timeouts(&mut fleet.config);
    let key = fleet.database.new_key(1_000_000).await;
    first.wait_for_replay(&standby).await;
    first.kill().await;
    let database = fleet.database.name().to_owned();
    fleet.config.upstream.url = Some(
        format!(
            "postgres://{READER}@{},{}/{database}?target_session_attrs=any",
            first.addr(),
            standby.addr()
        )
        .into(),
    );
    fleet.grow(1).await;
    let Fleet { replicas, .. } = &fleet;
    eventually(TIMEOUT, "the replica serves", || async {
        replicas[0].get("/genes", Some(&key)).await.status == 200
    })
    .await;

    standby.promote().await;
    let client = crate::support::postgres::connect(
        &standby.url(&database, crate::support::postgres::SUPERUSER),
    )
    .await;
    let genes = genes_of(&client, DOMAIN).await;
    let paths = paths_of(&genes);
    responses(&replicas[0], &key, &paths).await;
    client.batch_execute("update registry.gene set name = 'new'").await.unwrap();
    let committed = Instant::now();
    let mut config = fleet.config.clone();
    without_caches(&mut config);
    let expected = responses(&Replica::start(&config).await, &key, &paths).await;
    assert_visible(replicas, &key, &paths, &expected, committed, "the promoted server is read")
        .await;
}
