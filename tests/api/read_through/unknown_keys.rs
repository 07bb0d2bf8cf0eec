//! Unknown keys: each is looked up once, many share a statement, memory does not grow, and other
//! clients notice nothing. `refusals::invented_keys` has what they must not do.

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use gene_registry::keys::ApiKey;
use tokio::time::Instant;

use super::{TIMEOUT, assert_ok, fleet_with_probe, fresh_searches, sum};
use crate::support::redis::RedisServer;
use crate::support::wait::eventually;

const STRANGERS: usize = 4_000;
const AT_ONCE: usize = 50;
/// A replica's budget: this burst, and this many a second.
const BURST: usize = 5_000;
const PER_SECOND: f64 = 5_000.0;
/// How many valid keys a new replica gets.
const KEYS: usize = 400;

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_unknown_keys_and_keyless_requests_cause_a_bounded_number_of_lookups() {
    let (fleet, probe) = fleet_with_probe(fresh_searches).await;
    let key = fleet.database.new_key(1_000_000).await;
    for replica in &fleet.replicas {
        assert_ok(&replica.get("/genes", Some(&key)).await);
    }
    let (redis, known) = (RedisServer::shared().await, key_look_ups(&probe));
    let keys_before = redis.keys(&fleet.prefix).await;
    let begun = Instant::now();

    let requests = (0..STRANGERS).map(|n| {
        let (replica, key) = (&fleet.replicas[n % 3], &key);
        async move {
            match n % 4 {
                // The valid key, in the middle of the flood.
                0 => {
                    let response = replica.get("/genes", Some(key)).await;
                    assert_ok(&response);
                    assert!(response.header("cache-status").contains("hit"), "{response:?}");
                    false
                }
                1 => {
                    replica.get("/genes", None).await.assert_refused(401, "UNAUTHORIZED");
                    false
                }
                _ => {
                    let stranger = ApiKey::generate().unwrap();
                    let response = replica.get("/genes", Some(stranger.expose())).await;
                    if response.status == 401 {
                        response.assert_refused(401, "UNAUTHORIZED");
                        return false;
                    }
                    response.assert_refused(503, "UNAVAILABLE");
                    let wait: u64 = response.header("retry-after").parse().unwrap();
                    assert!((1..=60).contains(&wait), "{response:?}");
                    assert_eq!(response.header("cache-control"), "no-store");
                    true
                }
            }
        }
    });
    let refused: Vec<bool> = stream::iter(requests).buffer_unordered(AT_ONCE).collect().await;
    let refused = refused.into_iter().filter(|refused| *refused).count();

    let looked_up = key_look_ups(&probe) - known;
    let budget = 3.0 * (BURST as f64 + PER_SECOND * begun.elapsed().as_secs_f64());
    // Each replica may have refreshed the valid key's record in the background.
    let again = fleet.replicas.len();
    assert!(looked_up as f64 <= budget + again as f64, "{looked_up} > {budget}");
    let strangers = STRANGERS / 2..=STRANGERS / 2 + again;
    assert!(strangers.contains(&(looked_up + refused)), "each is looked up or refused");
    let counted = sum(&fleet.replicas, "gene_registry_key_lookups_refused_total").await;
    assert_eq!(counted, refused);
    // The valid key's window may have ended, and the database's history be shared, meanwhile.
    let (mut keys, history) =
        (redis.keys(&fleet.prefix).await, format!("{}:history", fleet.prefix));
    keys.retain(|key| !keys_before.contains(key) && *key != history);
    assert_eq!(keys, [""; 0], "Redis does not grow");
}

fn key_look_ups(probe: &crate::support::probe::Probe) -> usize {
    probe.keys.load(std::sync::atomic::Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_key_is_looked_up_once_and_cached() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let stranger = ApiKey::generate().unwrap();
    let replica = &fleet.replicas[0];
    for _ in 0..50 {
        let response = replica.get("/genes", Some(stranger.expose())).await;
        response.assert_refused(401, "UNAUTHORIZED");
    }
    // An unknown key is cached for ten seconds; a slow machine may take longer for all of them.
    assert!(key_look_ups(&probe) <= 3, "{}", key_look_ups(&probe));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_first_requests_with_one_key_share_one_lookup() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    for _ in 0..3 {
        let (key, before) = (fleet.database.new_key(1_000_000).await, key_look_ups(&probe));
        let requests = (0..300).map(|_| fleet.replicas[0].get("/genes", Some(&key)));
        for response in join_all(requests).await {
            assert_ok(&response);
        }
        let looked_up = key_look_ups(&probe) - before;
        assert!(looked_up < 50, "{looked_up}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_replica_admits_many_known_keys_at_once_and_counts_unknown_ones() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let replica = &fleet.replicas[0];
    let mut keys = Vec::new();
    for _ in 0..KEYS {
        keys.push(fleet.database.new_key(1_000).await);
    }
    let asked = keys.iter().map(|key| replica.get("/genes?limit=1", Some(key)));
    stream::iter(asked).buffer_unordered(AT_ONCE).for_each(async |it| assert_ok(&it)).await;
    assert!(key_look_ups(&probe) >= keys.len());
    let statements = probe.key_statements.load(std::sync::atomic::Ordering::SeqCst);
    assert!(statements < keys.len() * 3 / 4, "waiting look-ups share statements: {statements}");

    let unknown = "gene_registry_unknown_keys_total";
    assert_eq!(replica.metric(unknown).await, Some(0.0), "they do not count");
    let strangers: Vec<_> = (0..KEYS).map(|_| ApiKey::generate().unwrap()).collect();
    let asked = strangers.iter().map(|key| replica.get("/genes", Some(key.expose())));
    let responses: Vec<_> = stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
    assert!(responses.iter().all(|it| it.status == 401));
    assert_eq!(replica.metric(unknown).await, Some(KEYS as f64));
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_metrics_and_document_need_no_key_count_or_query() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let redis = RedisServer::shared().await;
    // Each replica tells it every few seconds, whatever is requested.
    let history = format!("{}:history", fleet.prefix);
    eventually(TIMEOUT, "the history is told", || async {
        redis.keys(&fleet.prefix).await.contains(&history)
    })
    .await;
    let keys = redis.keys(&fleet.prefix).await;
    let monitor = redis.monitor().await;

    // Five seconds at twenty a second, sent as fast as possible.
    for _ in 0..100 {
        for replica in &fleet.replicas {
            for path in ["/livez", "/readyz", "/metrics"] {
                assert_eq!(replica.ops(path).await.status, 200, "{path}");
            }
            for path in ["/openapi.json", "/openapi.yaml"] {
                let response = replica.get(path, None).await;
                assert_ok(&response);
                assert_eq!(response.header("x-ratelimit-limit"), "", "{response:?}");
            }
        }
    }

    assert_eq!((probe.reads(), key_look_ups(&probe)), (0, 0), "no query");
    // The monitor has seen everything once it has seen this command.
    let mark = format!("{}:mark", fleet.prefix);
    let _: Option<String> = redis.command(&["GET", &mark]).await;
    eventually(TIMEOUT, "the marker is seen", || async { !monitor.lines_with(&mark).is_empty() })
        .await;
    let others: Vec<_> = monitor.lines_with(&fleet.prefix);
    let is_expected = |line: &String| line.contains(&mark) || line.contains(&history);
    assert!(others.iter().all(is_expected), "{others:?}");
    assert_eq!(redis.keys(&fleet.prefix).await, keys, "no counter");
}
