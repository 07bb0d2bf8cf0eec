//! The tasks that run beside the requests until the replica shuts down.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::services::Services;
use crate::ops::{Health, Metrics};
use crate::server::ServerTls;
use crate::upstream::UpstreamClient;

/// After this long a replica becomes ready even if it has not reached the upstream.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between checks whether the upstream has been reached, at the start.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(20);

const METRICS_UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Starts the tasks. They run until they are aborted.
pub(super) fn spawn_background_tasks(
    services: &Services,
    tls: Option<ServerTls>,
) -> Vec<JoinHandle<()>> {
    let (upstream, metrics) = (&services.upstream, &services.metrics);
    let authenticator = Arc::clone(&services.authenticator);
    let mut tasks = vec![
        tokio::spawn(Arc::clone(upstream).watch()),
        tokio::spawn(await_upstream(Arc::clone(upstream), Arc::clone(&services.health))),
        tokio::spawn(run_upkeep(Arc::clone(metrics))),
        tokio::spawn(async move { authenticator.follow_changes().await }),
    ];
    tasks.extend(services.redis.as_ref().map(|redis| tokio::spawn(redis.run_probes())));
    tasks.extend(tls.map(|tls| tokio::spawn(watch_certificate(tls, Arc::clone(metrics)))));
    tasks
}

/// Makes the replica ready once the change log is loaded, without which no entry of the shared
/// cache can be checked, and after [`READY_TIMEOUT`] in any case.
async fn await_upstream(upstream: Arc<UpstreamClient>, health: Arc<Health>) {
    let settled = async {
        while !upstream.is_settled() {
            tokio::time::sleep(READY_POLL_INTERVAL).await;
        }
    };
    if tokio::time::timeout(READY_TIMEOUT, settled).await.is_err() {
        tracing::warn!(
            "the registry's database could not be reached within {} seconds; serving without it",
            READY_TIMEOUT.as_secs()
        );
    }
    health.set_ready();
}

async fn run_upkeep(metrics: Arc<Metrics>) {
    loop {
        tokio::time::sleep(METRICS_UPKEEP_INTERVAL).await;
        metrics.run_upkeep();
    }
}

/// Reloads the certificate when its files change, and publishes its expiry.
async fn watch_certificate(tls: ServerTls, metrics: Arc<Metrics>) {
    metrics.certificate_expires(tls.expires_at());
    let reloaded_tls = tls.clone();
    tls.watch(|is_applied| {
        metrics.certificate_reloaded(is_applied);
        metrics.certificate_expires(reloaded_tls.expires_at());
    })
    .await;
}
