//! A standby that is lost: killed, or hanging.

use tokio::time::{Duration, Instant};

use super::{TIMEOUT, fleet, reads, wait_for_use, without_caches};
use crate::currency::DOMAIN;
use crate::support::need_own_servers;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::READER;
use crate::support::standby::primary;
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_or_hanging_standby_fails_no_request() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let fleet = fleet(2, &primary, &[&standby], |config, _| without_caches(config)).await;
    let key = fleet.database.new_key(1_000_000).await;
    primary.wait_for_replay(&standby).await;
    let ask_for = |time: Duration| {
        let (replicas, key) = (&fleet.replicas, &key);
        async move {
            let until = Instant::now() + time;
            while Instant::now() < until {
                for replica in replicas {
                    let response = replica.get("/genes?limit=3", Some(key)).await;
                    assert_eq!(response.status, 200, "{response:?}");
                }
            }
        }
    };
    ask_for(Duration::from_millis(500)).await;
    assert!(reads(&fleet.replicas[0], "answered").await > 0.0);

    standby.kill().await;
    ask_for(Duration::from_secs(3)).await;
    for replica in &fleet.replicas {
        wait_for_use(replica, 1, false).await;
    }
    standby.restart().await;
    for replica in &fleet.replicas {
        wait_for_use(replica, 1, true).await;
    }

    standby.pause();
    ask_for(Duration::from_secs(8)).await;
    standby.resume();
    for replica in &fleet.replicas {
        wait_for_use(replica, 1, true).await;
    }
    let before = reads(&fleet.replicas[0], "answered").await;
    ask_for(Duration::from_millis(500)).await;
    assert!(reads(&fleet.replicas[0], "answered").await > before);
}

/// A read that the standby cannot serve waits for the primary, for the whole fleet.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_the_primary_fails_no_read_of_others() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let proxy = FaultProxy::start(primary.addr()).await;
    let mut fleet = fleet(0, &primary, &[&standby], |config, _| {
        // Its read fails while the others wait for it.
        (config.upstream.query_ms, config.upstream.connect_ms) = (1_000, 500);
    })
    .await;
    let direct = fleet.config.upstream.url.clone();
    fleet.config.upstream.url = Some(proxy.url(&fleet.database.url_as(READER)).into());
    fleet.grow(1).await;
    fleet.config.upstream.url = direct;
    fleet.grow(1).await;
    let [cut_off, other] = &fleet.replicas[..] else { unreachable!("two replicas") };
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    primary.wait_for_replay(&standby).await;
    for replica in [cut_off, other] {
        wait_for_use(replica, 1, true).await;
        assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    }
    standby.pause_replay().await;
    let sql = "update registry.gene set name = 'renamed' where domain = $1";
    assert!(client.execute(sql, &[&DOMAIN]).await.unwrap() > 0);
    for (replica, limit) in [(cut_off, 1), (other, 2)] {
        eventually(TIMEOUT, "the standby is known to lack the change", || async {
            let path = format!("/genes?domain={DOMAIN}&limit={limit}&sort=downloads");
            replica.get(&path, Some(&key)).await.text.contains("renamed")
        })
        .await;
    }

    proxy.set(Mode::Stall).await;
    let path = format!("/genes?domain={DOMAIN}&limit=3");
    let read = async {
        let redis = RedisServer::shared().await;
        let leases = format!("{}:lease", fleet.prefix);
        eventually(TIMEOUT, "the replica has the lease", || async {
            !redis.keys(&leases).await.is_empty()
        })
        .await;
        other.get(&path, Some(&key)).await
    };
    let (failed, read) = tokio::join!(cut_off.get(&path, Some(&key)), read);

    failed.assert_refused(502, "DB_ERROR");
    assert_eq!(read.status, 200, "{read:?}");
}
