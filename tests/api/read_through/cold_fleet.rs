//! A fleet that starts with empty caches under load.

use std::collections::HashMap;

use futures_util::future::join_all;
use reqwest::Version;

use super::{Loads, assert_ok, client, fleet_with, fresh_searches, get, loads, long_timeouts};

const CLIENTS: usize = 1000;
const DISTINCT: usize = 50;

/// Each client keeps its connection and sends three requests, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_cold_fleet_under_load_reads_each_entry_once() {
    let fleet = fleet_with(|config| {
        long_timeouts(config);
        fresh_searches(config);
    })
    .await;
    let key = fleet.database.new_key(1_000_000).await;
    // A third of the clients have connections of their own, the others share a few.
    let over_http2: Vec<_> = (0..12).map(|_| client(Version::HTTP_2)).collect();
    let clients = (0..CLIENTS).map(|n| {
        let (replica, key) = (&fleet.replicas[n % 3], &key);
        let client = match n % 9 {
            0..3 => client(Version::HTTP_11),
            _ => over_http2[n % 12].clone(),
        };
        async move {
            let mut responses = Vec::new();
            for step in [0, 17, 34] {
                let number = (n + step) % DISTINCT;
                let path = format!("/genes?limit=3&offset={number}");
                responses.push((number, get(&client, replica, &path, key).await));
            }
            responses
        }
    });

    let mut texts = HashMap::new();
    for (number, response) in join_all(clients).await.into_iter().flatten() {
        assert_ok(&response);
        let text = texts.entry(number).or_insert_with(|| response.text.clone());
        assert_eq!(*text, response.text, "{number}");
    }
    assert_eq!(texts.len(), DISTINCT);
    assert_eq!(loads(&fleet.replicas).await, Loads { ok: DISTINCT, failed: 0 });
}
