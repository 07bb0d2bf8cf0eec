//! Every alert fires by its cause: real faults of real replicas, seen by a real Prometheus with the
//! shipped rules, whose durations are divided by sixty. A healthy fleet beside them fires none.
//!
//! Most of the time is spent waiting, so all causes run at once.

mod database;
mod healthy;
mod overload;
mod process;
mod redis;
mod replicas;
mod requests;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::flood::Flood;
use crate::support::prometheus::{Prometheus, rules};
use crate::support::raw::address;
use crate::support::replica::Replica;
use crate::support::traffic::uncached_path;
use crate::support::wait::{eventually, until};
use crate::support::{need_own_servers, raise_file_limit, record_not_run, test_name};

const TIMEOUT: Duration = Duration::from_secs(180);

/// The alerts that each module causes.
const CAUSED: [&[&str]; 6] = [
    &database::ALERTS,
    &overload::ALERTS,
    &process::ALERTS,
    &redis::ALERTS,
    &replicas::ALERTS,
    &requests::ALERTS,
];

#[test]
fn every_alert_has_a_cause() {
    let rules = rules();
    let shipped: BTreeSet<_> = rules.iter().map(|rule| rule["alert"].as_str().unwrap()).collect();
    let caused: BTreeSet<_> = CAUSED.concat().into_iter().collect();
    assert_eq!(caused, shipped);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alert_fires_by_its_cause_and_none_of_a_healthy_fleet() {
    need_own_servers!();
    if !raise_file_limit(2 * process::CONNECTIONS as u64) {
        fn here() {}
        record_not_run(&format!("{}: needs 7,000 open files", test_name(&here)));
        return;
    }
    let causes = async {
        tokio::join!(
            Box::pin(database::fire()),
            Box::pin(overload::fire()),
            Box::pin(process::fire()),
            Box::pin(redis::fire()),
            Box::pin(replicas::fire()),
            Box::pin(requests::fire()),
        );
    };
    healthy::fire_none_during(causes).await;
}

/// A Prometheus that watches replicas, and the alerts that their faults must cause.
struct Watch {
    prometheus: Prometheus,
    missing: Mutex<BTreeSet<&'static str>>,
    /// Since when no alert was active.
    started: Instant,
}

impl Watch {
    /// Scrapes these replicas, and waits until they are ready and no alert is active.
    async fn start(alerts: &[&'static str], replicas: &[&Replica]) -> Self {
        let prometheus = Prometheus::start().await;
        let missing = Mutex::new(alerts.iter().copied().collect());
        for replica in replicas {
            eventually(TIMEOUT, "the replica is ready", async || {
                replica.ops("/readyz").await.status == 200
            })
            .await;
            prometheus.scrape(&instance(replica)).await;
        }
        eventually(TIMEOUT, "no alert is active", async || prometheus.alerts().await.is_empty())
            .await;
        Self { prometheus, missing, started: Instant::now() }
    }

    /// Waits until the alert fires.
    async fn fires(&self, name: &'static str) {
        self.wait_for(name, |_| true).await;
    }

    /// Waits until the alert fires for this instance.
    async fn fires_for(&self, name: &'static str, instance: &str) {
        self.wait_for(name, |labels| labels["instance"] == instance).await;
    }

    async fn wait_for(&self, name: &'static str, concerns: impl Fn(&Value) -> bool) {
        let alert = until(TIMEOUT, name, async || {
            self.prometheus.alerts().await.into_iter().find(|alert| {
                let labels = &alert["labels"];
                labels["alertname"] == name && alert["state"] == "firing" && concerns(labels)
            })
        })
        .await;
        let summary = alert["annotations"]["summary"].as_str().unwrap();
        assert!(!summary.contains("no value") && !summary.contains("error"), "{name}: {summary}");
        let runbook = format!("https://runbook.example/operations.md#{}", name.to_lowercase());
        assert_eq!(alert["annotations"]["runbook_url"], *runbook);
        assert!(self.missing.lock().unwrap().remove(name), "{name} is in no list");
    }

    /// Checks that each alert has fired.
    fn assert_complete(self) {
        let missing = self.missing.into_inner().unwrap();
        assert!(missing.is_empty(), "have not fired: {missing:?}");
    }
}

/// The label `instance` of a replica.
fn instance(replica: &Replica) -> String {
    address(&replica.ops)
}

/// Uncached requests to a replica, until this is dropped.
fn uncached_requests(replica: &Replica, key: &str, streams: u32, per_second: u32) -> Flood {
    let (client, base, key) = (reqwest::Client::new(), replica.base.clone(), key.to_owned());
    Flood::start(streams, per_second, move || {
        client.get(format!("{base}{}", uncached_path())).header("X-API-Key", &key)
    })
}
