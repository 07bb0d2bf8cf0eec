//! A request that comes late to a slow load does not get what was read before a change that it is
//! due.

use futures_util::future::join_all;
use tokio_util::task::AbortOnDropHandle;

use super::{TIMEOUT, assert_ok, fleet_with_probe, sum};
use crate::currency::{always_fresh, genes_of};
use crate::support::probe::{Hold, Probe};
use crate::support::replica::{Fleet, Replica};
use crate::support::wait::eventually;

const POLLS: &str = r#"gene_registry_change_log_polls_total{result="ok"}"#;

/// Waits until every replica has polled the change log twice more.
async fn polled(fleet: &Fleet<'_>) {
    for replica in &fleet.replicas {
        let polls = async || replica.metric(POLLS).await.unwrap();
        let before = polls().await;
        eventually(TIMEOUT, "two polls", async || polls().await >= before + 2.0).await;
    }
}

async fn held(probe: &Probe, reads: usize) {
    eventually(TIMEOUT, "a read is held", async || probe.waiting() == reads).await;
}

/// How many requests these replicas have admitted.
async fn admitted(replicas: &[Replica]) -> usize {
    sum(replicas, r#"gene_registry_limit_decisions_total{result="admitted"}"#).await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_after_a_known_change_do_not_get_what_was_read_before_it() {
    let (fleet, probe) = fleet_with_probe(always_fresh).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let genes = genes_of(&client, "search").await;
    let hide = format!("update registry.gene set published = false where id = '{}'", genes[1]);
    client.batch_execute(&hide).await.unwrap();
    polled(&fleet).await;
    let [rename, publish] = ["name = 'the new name'", "published = true"];
    for (path, id, change, before) in [
        ("/genes?domain=search".to_owned(), &genes[0], rename, 200),
        (format!("/genes/{}/phenotype", genes[1]), &genes[1], publish, 404),
    ] {
        let passed = admitted(&fleet.replicas).await;
        probe.hold(Hold::Results);
        let first = fleet.replicas[0].get(&path, Some(&key));
        let others = async {
            held(&probe, 1).await;
            let sql = format!("update registry.gene set {change} where id = '{id}'");
            client.batch_execute(&sql).await.unwrap();
            polled(&fleet).await;
            let late = fleet.replicas.iter().map(|replica| replica.get(&path, Some(&key)));
            let release = async {
                eventually(TIMEOUT, "they have asked", async || {
                    admitted(&fleet.replicas).await == passed + 4
                })
                .await;
                probe.hold(Hold::Nothing);
            };
            tokio::join!(join_all(late), release).0
        };
        let (first, others) = tokio::join!(first, others);
        assert_eq!(first.status, before, "{first:?}");
        for answer in others {
            assert_ok(&answer);
            assert!(before == 404 || answer.text.contains("the new name"), "{answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_log_requests_share_only_loads_that_began_within_two_seconds() {
    let (fleet, probe) = fleet_with_probe(always_fresh).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let path = "/genes?domain=search";
    let id = genes_of(&client, "search").await.swap_remove(0);
    for replica in &fleet.replicas {
        assert_ok(&replica.get("/genes?domain=none", Some(&key)).await);
    }
    let revoke = "revoke select on registry_read.change from gene_registry_reader";
    client.batch_execute(revoke).await.unwrap();
    probe.hold(Hold::Results);
    let first = fleet.replicas[0].get(path, Some(&key));
    let late = async {
        held(&probe, 1).await;
        let sql = format!("update registry.gene set name = 'the new name' where id = '{id}'");
        client.batch_execute(&sql).await.unwrap();
        let (http, mut waiting) = (reqwest::Client::new(), Vec::new());
        eventually(TIMEOUT, "another replica no longer waits for it", || {
            let (url, key) = (format!("{}{path}", fleet.replicas[1].base), key.clone());
            let request = http.get(url).header("X-API-Key", key).send();
            waiting.push(AbortOnDropHandle::new(tokio::spawn(request)));
            let (replica, probe) = (&fleet.replicas[1], &probe);
            async move { replica.ops("/livez").await.status == 200 && probe.waiting() == 2 }
        })
        .await;
        let late = fleet.replicas[1].get(path, Some(&key));
        let release = async {
            eventually(TIMEOUT, "the last request has arrived", async || {
                admitted(&fleet.replicas).await == fleet.replicas.len() + waiting.len() + 2
            })
            .await;
            probe.hold(Hold::Nothing);
        };
        tokio::join!(late, release).0
    };
    let (first, late) = tokio::join!(first, late);
    assert_ok(&first);
    assert_ok(&late);
    assert!(late.text.contains("the new name"), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_revoked_during_a_slow_lookup_is_refused_to_those_who_ask_after_it() {
    // Which of the two lookups ends first, and what the first request gets then.
    for (first_to_end, status) in [(0, 200), (1, 401)] {
        let (fleet, probe) = fleet_with_probe(always_fresh).await;
        let client = fleet.database.connect().await;
        let key = fleet.database.new_key(1_000_000).await;
        let replica = &fleet.replicas[0];
        probe.hold(Hold::Keys);
        let [first, late] = [0, 1].map(|number| {
            let (probe, client, fleet, key) = (&probe, &client, &fleet, &key);
            async move {
                if number == 1 {
                    held(probe, 1).await;
                    let revoke = "update registry.api_key set revoked_at = now()";
                    client.batch_execute(revoke).await.unwrap();
                    polled(fleet).await;
                }
                let response = replica.get("/genes", Some(key)).await;
                probe.hold(Hold::Nothing);
                response
            }
        });
        let release = async {
            held(&probe, 2).await;
            // The other one is held until the response to this one.
            probe.hold(Hold::KeyStatement(1 - first_to_end));
        };
        let (first, late, ()) = tokio::join!(first, late, release);
        assert_eq!(first.status, status, "{first_to_end}: {first:?}");
        late.assert_refused(401, "UNAUTHORIZED");
    }
}
