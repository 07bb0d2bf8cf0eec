//! A standby that is lost: killed, or hanging.

use tokio::time::{Duration, Instant};

use super::{fleet, reads, wait_for_use, without_caches};
use crate::support::need_own_servers;
use crate::support::standby::primary;

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
