//! Requests: one for each operation, uncached ones, and a steady stream of both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::database::Database;
use super::replica::{Answer, Fleet, Replica};

/// Between two requests of one stream.
const PACE: Duration = Duration::from_millis(10);

/// A path for each operation, with status 200 on the sample registry.
pub(crate) async fn routes(database: &Database<'_>) -> [String; 3] {
    let client = database.connect().await;
    let row = client.query_one("select id::text from registry_read.gene limit 1", &[]).await;
    let id: String = row.unwrap().get(0);
    let phenotype = format!("/genes/{id}/phenotype");
    ["/genes".to_owned(), phenotype, "/arena/insights?domain=search".to_owned()]
}

/// A search that nothing in this process has requested before, so it is in no cache.
pub(crate) fn uncached() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("/genes?domain=nobody.asked.{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A response and how long it took.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) answer: Answer,
    pub(crate) took: Duration,
}

/// Checks that the response is the generic 502 and reveals nothing about the database.
#[track_caller]
pub(crate) fn assert_db_error(answer: &Answer) {
    answer.assert_refused(502, "DB_ERROR");
    assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    let text = answer.text.to_lowercase();
    for word in ["127.0.0.1", "localhost", "gene_registry_reader", "registry.", "registry_read"] {
        assert!(!text.contains(word), "{word}: {answer:?}");
    }
    for word in ["select", "gr_test_", "sqlstate", "57p", "55p", "08006", "timeout", "pool"] {
        assert!(!text.contains(word), "{word}: {answer:?}");
    }
    assert!(!text.chars().any(|c| c.is_ascii_digit()), "{answer:?}");
}

/// Checks that the response is the complete 503 of a shed request.
#[track_caller]
pub(crate) fn assert_shed(answer: &Answer) {
    answer.assert_refused(503, "UNAVAILABLE");
    assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{answer:?}");
    for name in ["ratelimit", "ratelimit-policy", "x-ratelimit-remaining"] {
        assert_ne!(answer.header(name), "", "{name}: {answer:?}");
    }
}

/// Sends `count` uncached requests at once, spread over the replicas.
pub(crate) async fn burst(replicas: &[Replica], key: &str, count: usize) -> Vec<Timed> {
    let requests = (0..count).map(|number| async move {
        let replica = &replicas[number % replicas.len()];
        let begun = Instant::now();
        let answer = replica.get(&uncached(), Some(key)).await;
        Timed { answer, took: begun.elapsed() }
    });
    join_all(requests).await
}

/// A stream of requests over every replica until it is stopped.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    streams: Vec<JoinHandle<Vec<Answer>>>,
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
    pub(crate) async fn stop(self) -> Vec<Answer> {
        self.stop.store(true, Ordering::Relaxed);
        let answers = join_all(self.streams).await;
        answers.into_iter().flat_map(Result::unwrap).collect()
    }
}

async fn stream(
    base: String,
    key: String,
    path: Option<String>,
    stop: Arc<AtomicBool>,
) -> Vec<Answer> {
    let client = reqwest::Client::new();
    let mut answers = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let path = path.clone().unwrap_or_else(uncached);
        let request = client.get(format!("{base}{path}")).header("X-API-Key", &key);
        answers.push(Answer::of(request.send().await.unwrap()).await);
        tokio::time::sleep(PACE).await;
    }
    answers
}
