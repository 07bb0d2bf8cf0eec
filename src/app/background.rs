//! The tasks that run beside the requests until the replica shuts down.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_util::task::AbortOnDropHandle;

use super::public_numbers::publish_numbers;
use super::services::Services;
use crate::ops::Metrics;
use crate::server::ServerTls;
use crate::sync::supervise;
use crate::upstream::ChangePoller;

/// After this long a replica becomes ready even if it has not reached the upstream, unless that refuses
/// the login.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between checks whether the upstream has been reached, at the start.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval between checks of the views. Longer than the pool keeps an idle connection, so that this
/// keeps none open.
const VIEWS_INTERVAL: Duration = Duration::from_secs(30);

/// Interval while they cannot be read.
const VIEWS_RETRY_INTERVAL: Duration = Duration::from_secs(1);

const METRICS_UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Starts the tasks. They run until they are dropped.
pub(super) fn spawn_background_tasks(
    services: &Arc<Services>,
    tls: Option<ServerTls>,
    has_public_numbers: bool,
) -> Vec<AbortOnDropHandle<()>> {
    let mut tasks = vec![
        spawn("change_log_polls", services, |services| {
            ChangePoller::new(Arc::clone(&services.upstream)).run()
        }),
        spawn("readiness", services, watch_readiness),
        spawn("metrics_upkeep", services, run_upkeep),
        spawn("key_changes", services, |services| async move {
            services.authenticator.follow_changes().await;
        }),
    ];
    if has_public_numbers {
        tasks.push(spawn("public_numbers", services, publish_numbers));
    }
    if services.redis.is_some() {
        tasks.push(spawn("redis_probes", services, run_redis_probes));
        tasks.push(spawn("database_history", services, share_history));
        tasks.push(spawn("redis_memory", services, watch_redis_memory));
    }
    tasks.extend(tls.map(|tls| {
        let metrics = Arc::clone(&services.metrics);
        supervise("certificate_watch", move || watch_certificate(tls.clone(), Arc::clone(&metrics)))
    }));
    tasks
}

fn spawn<F>(
    name: &'static str,
    services: &Arc<Services>,
    run: impl Fn(Arc<Services>) -> F + Send + 'static,
) -> AbortOnDropHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let services = Arc::clone(services);
    supervise(name, move || run(Arc::clone(&services)))
}

/// Makes the replica ready once the change log is loaded, without which no entry of the shared
/// cache can be checked, or [`READY_TIMEOUT`] is over and the upstream does not refuse the login (other
/// replicas may have the right password), and the views are not known to be unreadable. Then goes on
/// to check the views.
async fn watch_readiness(services: Arc<Services>) {
    let (upstream, begun, mut is_told) = (&services.upstream, Instant::now(), false);
    while !upstream.log.is_settled() {
        let is_refused = upstream.is_login_refused.load(Ordering::Relaxed);
        if begun.elapsed() >= READY_TIMEOUT && !is_refused {
            tracing::warn!(
                "the registry's database could not be reached within {} seconds; serving without it",
                READY_TIMEOUT.as_secs()
            );
            break;
        }
        if is_refused && !std::mem::replace(&mut is_told, true) {
            tracing::warn!(
                "the registry's database refuses the login: this replica is not ready until it accepts \
                 it"
            );
        }
        tokio::time::sleep(READY_POLL_INTERVAL).await;
    }
    loop {
        let interval = if services.check_views().await {
            services.health.set_ready();
            VIEWS_INTERVAL
        } else {
            VIEWS_RETRY_INTERVAL
        };
        tokio::time::sleep(interval).await;
    }
}

async fn run_upkeep(services: Arc<Services>) {
    loop {
        tokio::time::sleep(METRICS_UPKEEP_INTERVAL).await;
        services.metrics.run_upkeep();
    }
}

async fn run_redis_probes(services: Arc<Services>) {
    if let Some(redis) = &services.redis {
        redis.run_probes().await;
    }
}

async fn share_history(services: Arc<Services>) {
    if let Some(shared_cache) = &services.shared_cache {
        shared_cache.share_history().await;
    }
}

async fn watch_redis_memory(services: Arc<Services>) {
    if let Some(shared_cache) = &services.shared_cache {
        shared_cache.room.watch(&shared_cache.small).await;
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

#[cfg(test)]
#[path = "background_tests.rs"]
mod tests;
