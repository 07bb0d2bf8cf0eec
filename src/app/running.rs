//! A running replica: its addresses, and its graceful shutdown.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::keys::UsageWriter;
use crate::ops::{Health, Traces};
use crate::server::Serving;

/// How long a shutdown waits for publications.
const PUBLICATION_GRACE: Duration = Duration::from_secs(1);

/// A running replica. [`Self::shutdown`] ends it gracefully. Dropping it ends its background tasks
/// and its listeners at once, but no connection.
#[derive(Debug)]
pub struct Running {
    pub(super) public: Serving,
    pub(super) ops: Serving,
    pub(super) control: Option<Serving>,
    /// Changes of keys that the control listener has begun.
    pub(super) key_changes: TaskTracker,
    /// Publications of results in Redis under way.
    pub(super) publications: TaskTracker,
    pub(super) usage: Option<UsageWriter>,
    pub(super) health: Arc<Health>,
    pub(super) times: ShutdownTimes,
    pub(super) background: Vec<AbortOnDropHandle<()>>,
    pub(super) traces: Traces,
}

/// How long the steps of a shutdown may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShutdownTimes {
    pub(super) drain: Duration,
    pub(super) grace: Duration,
}

impl Running {
    /// The base URL of the API, with its version: `http://127.0.0.1:8080/v1`.
    pub fn base_url(&self) -> String {
        format!("{}://{}/v1", self.public.scheme, connectable(self.public.address))
    }

    /// The URL of the operations listener, without a path.
    pub fn ops_url(&self) -> String {
        format!("http://{}", connectable(self.ops.address))
    }

    /// The URL of the control listener, without `/control/v1`; `None` if it is off.
    pub fn control_url(&self) -> Option<String> {
        let address = self.control.as_ref()?.address;
        Some(format!("http://{}", connectable(address)))
    }

    /// Completes once `/readyz` succeeds.
    pub fn ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let health = Arc::clone(&self.health);
        async move { health.ready().await }
    }

    /// Shuts down in this order: `/readyz` fails and kept-alive connections are closed after their
    /// next response; `server.drain_ms` pass; new connections are refused; requests under way
    /// and changes of keys finish within `server.grace_ms`; pending publications, key usage and spans
    /// are sent.
    pub async fn shutdown(self) {
        self.health.set_draining();
        self.public.drain();
        sleep(self.times.drain).await;
        self.public.shutdown().await;
        if let Some(control) = self.control {
            let deadline = Instant::now() + self.times.grace;
            control.shutdown().await;
            self.key_changes.close();
            if timeout_at(deadline, self.key_changes.wait()).await.is_err() {
                tracing::warn!(
                    "changes of API keys were still in progress when the grace time ended; list the \
                     keys to see whether they happened"
                );
            }
        }
        self.publications.close();
        // Other replicas read for themselves what is not published.
        let _ = timeout(PUBLICATION_GRACE, self.publications.wait()).await;
        self.ops.shutdown().await;
        drop(self.background);
        if let Some(usage) = self.usage {
            usage.finish().await;
        }
        self.traces.end().await;
    }
}

/// Replaces an unspecified IP address, which cannot be connected to, by the loopback address.
fn connectable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
    } else {
        address
    }
}
