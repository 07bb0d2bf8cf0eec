//! Requests: one for each operation, uncached ones, and a steady stream of both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::database::Database;
use super::replica::{Fleet, Replica, Response};

/// Between two requests of one stream.
const REQUEST_INTERVAL: Duration = Duration::from_millis(10);

/// A path for each operation, with status 200 on the sample registry.
pub(crate) async fn routes(database: &Database<'_>) -> [String; 3] {
    let client = database.connect().await;
    let row = client.query_one("select id::text from registry_read.gene limit 1", &[]).await;
    let id: String = row.unwrap().get(0);
    let phenotype = format!("/genes/{id}/phenotype");
    ["/genes".to_owned(), phenotype, "/arena/insights?domain=search".to_owned()]
}

/// A search that nothing in this process has requested before, so it is in no cache.
pub(crate) fn uncached_path() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("/genes?domain=nobody.asked.{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A response and how long it took.
#[derive(Debug)]
pub(crate) struct TimedResponse {
    pub(crate) response: Response,
    pub(crate) took: Duration,
}

/// Checks that the response is the generic 502 and reveals nothing about the database.
#[track_caller]
pub(crate) fn assert_db_error(response: &Response) {
    response.assert_refused(502, "DB_ERROR");
    assert_eq!(response.header("cache-control"), "no-store", "{response:?}");
    let text = response.text.to_lowercase();
    for word in ["127.0.0.1", "localhost", "gene_registry_reader", "registry.", "registry_read"] {
        assert!(!text.contains(word), "{word}: {response:?}");
    }
    for word in ["select", "gr_test_", "sqlstate", "57p", "55p", "08006", "timeout", "pool"] {
        assert!(!text.contains(word), "{word}: {response:?}");
    }
    assert!(!text.chars().any(|c| c.is_ascii_digit()), "{response:?}");
}

/// Checks that the response is the complete 503 of a shed request.
#[track_caller]
pub(crate) fn assert_shed(response: &Response) {
    response.assert_refused(503, "UNAVAILABLE");
    assert_eq!(response.header("cache-control"), "no-store", "{response:?}");
    let wait: u64 = response.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{response:?}");
    for name in ["ratelimit", "ratelimit-policy", "x-ratelimit-remaining"] {
        assert_ne!(response.header(name), "", "{name}: {response:?}");
    }
}

/// Sends `count` uncached requests at once, spread over the replicas.
pub(crate) async fn burst(replicas: &[Replica], key: &str, count: usize) -> Vec<TimedResponse> {
    let requests = (0..count).map(|number| async move {
        let replica = &replicas[number % replicas.len()];
        let begun = Instant::now();
        let response = replica.get(&uncached_path(), Some(key)).await;
        TimedResponse { response, took: begun.elapsed() }
    });
    join_all(requests).await
}

/// A stream of requests over every replica until it is stopped.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    streams: Vec<JoinHandle<Vec<Response>>>,
}

impl Traffic {
    /// Two streams for each replica: `path` repeatedly, and uncached requests.
    pub(crate) fn start(fleet: &Fleet<'_>, key: &str, path: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut streams = Vec::new();
        for replica in &fleet.replicas {
            for path in [Some(path.to_owned()), None] {
                let (base, key, stop) = (replica.base.clone(), key.to_owned(), Arc::clone(&stop));
                streams.push(tokio::spawn(stream(base, key, path, stop)));
            }
        }
        Self { stop, streams }
    }

    /// Stops the streams; returns all responses.
    pub(crate) async fn stop(self) -> Vec<Response> {
        self.stop.store(true, Ordering::Relaxed);
        let responses = join_all(self.streams).await;
        responses.into_iter().flat_map(Result::unwrap).collect()
    }
}

async fn stream(
    base: String,
    key: String,
    path: Option<String>,
    stop: Arc<AtomicBool>,
) -> Vec<Response> {
    let client = reqwest::Client::new();
    let mut responses = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let path = path.clone().unwrap_or_else(uncached_path);
        let request = client.get(format!("{base}{path}")).header("X-API-Key", &key);
        responses.push(Response::of(request.send().await.unwrap()).await);
        tokio::time::sleep(REQUEST_INTERVAL).await;
    }
    responses
}
