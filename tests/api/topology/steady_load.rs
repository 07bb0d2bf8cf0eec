//! Sends requests with one key to every replica and counts how many are admitted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::support::replica::Fleet;

/// Between two requests of one stream.
const REQUEST_INTERVAL: Duration = Duration::from_millis(25);

/// One stream of requests for each replica, until it is stopped.
pub(super) struct SteadyLoad {
    stop: Arc<AtomicBool>,
    streams: Vec<JoinHandle<(usize, usize)>>,
}

impl SteadyLoad {
    pub(super) fn start(fleet: &Fleet<'_>, key: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let streams = fleet.replicas.iter().map(|replica| {
            let stream = stream(replica.base.clone(), key.to_owned(), Arc::clone(&stop));
            tokio::spawn(stream)
        });
        let streams = streams.collect();
        Self { stop, streams }
    }

    /// The number of requests admitted and refused; panics at any other response.
    pub(super) async fn stop(self) -> (usize, usize) {
        self.stop.store(true, Ordering::Relaxed);
        let counts = join_all(self.streams).await.into_iter().map(Result::unwrap);
        counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// Sends requests until the key's window is exhausted; returns how many were admitted.
pub(super) async fn use_up(fleet: &Fleet<'_>, key: &str) -> usize {
    let mut admitted = 0;
    while fleet.replicas[0].get("/genes", Some(key)).await.status == 200 {
        admitted += 1;
        assert!(admitted < 10_000, "the limit is never reached");
    }
    admitted
}

async fn stream(base: String, key: String, stop: Arc<AtomicBool>) -> (usize, usize) {
    let client = reqwest::Client::new();
    let (mut admitted, mut refused) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let request = client.get(format!("{base}/genes")).header("X-API-Key", &key);
        match request.send().await.unwrap().status().as_u16() {
            200 => admitted += 1,
            429 => refused += 1,
            other => panic!("{other}"),
        }
        tokio::time::sleep(REQUEST_INTERVAL).await;
    }
    (admitted, refused)
}
