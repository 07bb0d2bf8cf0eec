//! Requests at a steady rate, for as long as a test needs them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A client whose connections come from this address.
pub(crate) fn client_from(address: &str) -> Client {
    let address: IpAddr = address.parse().unwrap();
    Client::builder().local_address(address).build().unwrap()
}

/// Requests that go on until they are stopped, or this is dropped.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    streams: Vec<AbortOnDropHandle<Vec<u16>>>,
}

impl Flood {
    /// Sends `per_second` requests a second on `streams` connections, or as many as the machine can.
    pub(crate) fn start<F>(streams: u32, per_second: u32, request: F) -> Self
    where
        F: Fn() -> RequestBuilder + Clone + Send + Sync + 'static,
    {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let stream = |_| {
            let (stop, sent, request) = (Arc::clone(&stop), Arc::clone(&sent), request.clone());
            AbortOnDropHandle::new(tokio::spawn(async move {
                let mut ticks = interval(Duration::from_secs(1) * streams / per_second);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                let mut statuses = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    ticks.tick().await;
                    let response = request().send().await.unwrap();
                    statuses.push(response.status().as_u16());
                    // Read to its end, so that the connection is used again.
                    response.bytes().await.unwrap();
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                statuses
            }))
        };
        let streams = (0..streams).map(stream).collect();
        Self { stop, sent, streams }
    }

    /// Waits until `count` requests have been answered.
    pub(crate) async fn answered(&self, count: usize) {
        eventually(TIMEOUT, "the flood goes on", || async {
            self.sent.load(Ordering::Relaxed) >= count
        })
        .await;
    }

    /// Ends it; the statuses of all responses.
    pub(crate) async fn stop(self) -> Vec<u16> {
        self.stop.store(true, Ordering::Relaxed);
        let mut statuses = Vec::new();
        for stream in self.streams {
            statuses.extend(stream.await.unwrap());
        }
        statuses
    }
}
