//! A change of everything, which outdates all cached pages at once on every replica.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use gene_registry::config::Config;

use super::{REPLICAS, always_fresh, is_hit};
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica};
use crate::support::wait::eventually;

const PAGES: usize = 300;

/// Concurrent requests to each replica: more than wait for their turn in normal operation.
const CLIENTS: usize = PAGES;

/// For a loaded machine; `bench/mass-change` measures the time that the design promises.
const TIMEOUT: Duration = Duration::from_secs(60);

/// 300 different pages, each with one gene at least.
fn pages() -> Vec<String> {
    let page = |number: usize| format!("/genes?limit={}&offset={}", 1 + number % 50, number / 50);
    (0..PAGES).map(page).collect()
}

/// Requests each page once; returns those whose response does not satisfy `is_right`. Panics at an
/// error.
async fn wrong_pages(
    replica: &Replica,
    key: &str,
    pages: &[String],
    is_right: impl Fn(&crate::support::replica::Response) -> bool,
) -> BTreeSet<String> {
    let clients = (0..CLIENTS).map(|client| {
        let (is_right, of_client) = (&is_right, pages.iter().skip(client).step_by(CLIENTS));
        async move {
            let mut wrong = BTreeSet::new();
            for page in of_client {
                let response = replica.get(page, Some(key)).await;
                assert_eq!(response.status, 200, "{page}: {response:?}");
                if !is_right(&response) {
                    wrong.insert(page.clone());
                }
            }
            wrong
        }
    });
    join_all(clients).await.into_iter().flatten().collect()
}

fn patient(config: &mut Config) {
    always_fresh(config);
    config.redis.timeout_ms = 10_000;
}

/// `change`: statements that change the description of all genes to `after`, and the log.
async fn assert_all_pages_follow(change: &str) {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(REPLICAS, postgres, redis, patient).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let (key, pages) = (key.as_str(), &pages());
    // One after another: a crowd of cold requests is another test.
    for replica in &fleet.replicas {
        for page in pages {
            assert_eq!(replica.get(page, Some(key)).await.status, 200);
        }
    }
    join_all(fleet.replicas.iter().map(|replica| async move {
        eventually(TIMEOUT, "all pages are cached", || async {
            wrong_pages(replica, key, pages, is_hit).await.is_empty()
        })
        .await;
    }))
    .await;

    client.batch_execute(change).await.unwrap();

    join_all(fleet.replicas.iter().map(|replica| async move {
        eventually(TIMEOUT, "all pages show the change", || async {
            let shows = |response: &crate::support::replica::Response| {
                let page = response.json();
                let genes = page["data"].as_array().unwrap().clone();
                !genes.is_empty() && genes.iter().all(|gene| gene["description"] == "after")
            };
            wrong_pages(replica, key, pages, shows).await.is_empty()
        })
        .await;
        eventually(TIMEOUT, "all pages are cached again", || async {
            wrong_pages(replica, key, pages, is_hit).await.is_empty()
        })
        .await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_are_read_again_without_an_error_after_a_change_of_all_genes() {
    assert_all_pages_follow(
        "begin; set local session_replication_role = replica;
         update registry.gene set description = 'after';
         insert into registry.change (scope) values ('genes');
         commit",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_are_read_again_without_an_error_after_one_statement_over_all_genes() {
    assert_all_pages_follow(
        "insert into registry.gene (domain, fidelity, owner_id, name)
         select 'mass.' || n % 7, 'Native', (select min(id) from registry.owner), 'one of many'
         from generate_series(1, 1000) n;
         update registry.gene set description = 'after'",
    )
    .await;
}
