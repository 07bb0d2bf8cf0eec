//! The cache-miss path: take the fleet-wide lease and query the database, or wait for the replica
//! that holds it. Without Redis, or where the holder began too early for this request, this replica
//! queries the database itself.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::entry::Entry;
use super::lease::{Lease, LeaseAttempt, LeaseOutcome};
use super::read::{NotRead, ReadOutcome, UpstreamReader};
use super::read_limiter::Priority;
use super::reply::Source;
use super::serve_policy::ServePolicy;
use super::shared::SharedCache;
use crate::ops::{CacheEvent, Metrics};
use crate::registry::Request;
use crate::upstream::{BootInstant, ReadOrder};

/// Pause before another attempt to take a lease whose holder read an outdated state.
const RETRY_INTERVAL: Duration = Duration::from_millis(25);

/// An entry and where it was found; `None`: the gene or domain does not exist.
pub(super) type FetchResult = Result<Option<(Arc<Entry>, Source)>, NotRead>;

/// Fetches entries and publishes them to both caches.
pub(super) struct Fetcher {
    pub(super) policy: Arc<ServePolicy>,
    pub(super) shared: Option<Arc<SharedCache>>,
    pub(super) reader: UpstreamReader,
    /// Maximum wait for another replica.
    pub(super) max_wait: Duration,
    pub(super) metrics: Arc<Metrics>,
}

impl Fetcher {
    /// Fetches the entry. `known` is the entry in Redis, as far as it was read.
    pub(super) async fn fetch(
        &self,
        request: &Request,
        known: Option<&Entry>,
        priority: Priority,
    ) -> FetchResult {
        let policy = &self.policy;
        let since = policy.local.newest(request).max(known.map(|entry| entry.seen.order()));
        let fetch_and_publish = |lease| self.fetch_and_publish(request, since, lease, priority);
        let Some(shared) = &self.shared else { return fetch_and_publish(None).await };
        let deadline = Instant::now() + self.max_wait;
        loop {
            let token = match shared.acquire_lease(request, known).await {
                LeaseAttempt::Acquired { lease, has_other_entry } => {
                    // The previous holder may have published it after `known` was read.
                    if has_other_entry
                        && let Some(entry) = shared.get(request).await
                        && policy.is_fresh(request, &entry)
                    {
                        shared.release_lease(&lease).await;
                        return Ok(Some(self.keep_shared(request, entry)));
                    }
                    return fetch_and_publish(Some(lease)).await;
                }
                LeaseAttempt::Held { token, age }
                    if policy.upstream.log.knows_changes_since(BootInstant::now() - age) =>
                {
                    token
                }
                LeaseAttempt::Held { .. } | LeaseAttempt::Unavailable => {
                    return fetch_and_publish(None).await;
                }
            };
            self.metrics.count(CacheEvent::Waited);
            match self.await_holder(shared, request, &token, deadline).await {
                ControlFlow::Break(Some(result)) => return result,
                ControlFlow::Break(None) => return fetch_and_publish(None).await,
                ControlFlow::Continue(()) => {}
            }
        }
    }

    /// Waits for the replica that holds the lease. Breaks with its result, or with `None` if this
    /// replica should read without a lease; continues if it should try to take the lease.
    async fn await_holder(
        &self,
        shared: &SharedCache,
        request: &Request,
        token: &str,
        deadline: Instant,
    ) -> ControlFlow<Option<FetchResult>> {
        let policy = &self.policy;
        let is_fresh = |entry: &Entry| policy.is_fresh(request, entry);
        match shared.wait(request, token, deadline, is_fresh).await {
            LeaseOutcome::Entry(entry) => {
                ControlFlow::Break(Some(Ok(Some(self.keep_shared(request, entry)))))
            }
            LeaseOutcome::Absent(seen) if !policy.is_outdated(request, &seen) => {
                policy.local.put_absent(request, seen);
                ControlFlow::Break(Some(Ok(None)))
            }
            // The holder read before a change that is known here.
            LeaseOutcome::Absent(_) if Instant::now() < deadline => {
                sleep(RETRY_INTERVAL).await;
                ControlFlow::Continue(())
            }
            LeaseOutcome::Absent(_) | LeaseOutcome::TimedOut => ControlFlow::Break(None),
            // Without a retry, an entry that is known to be outdated would be served.
            LeaseOutcome::Failed(_)
                if policy.upstream.is_in_use() && policy.local.newest(request).is_some() =>
            {
                ControlFlow::Continue(())
            }
            LeaseOutcome::Failed(error) => ControlFlow::Break(Some(Err(error.into()))),
            LeaseOutcome::LeaseEnded => ControlFlow::Continue(()),
        }
    }

    fn keep_shared(&self, request: &Request, entry: Entry) -> (Arc<Entry>, Source) {
        (self.policy.local.put(request, &Arc::new(entry)), Source::Shared)
    }

    /// Reads from the upstream, and publishes the result to both caches.
    async fn fetch_and_publish(
        &self,
        request: &Request,
        since: Option<ReadOrder>,
        lease: Option<Lease>,
        priority: Priority,
    ) -> FetchResult {
        let (policy, shared) = (&self.policy, &self.shared);
        let read = match self.reader.read(request, since, priority).await {
            Ok(outcome) => Ok(outcome),
            Err(NotRead::Failed(error)) => Err(error),
            Err(NotRead::Overloaded(overloaded)) => {
                // Another replica may have capacity for it.
                if let (Some(shared), Some(lease)) = (shared, &lease) {
                    shared.release_lease(lease).await;
                }
                return Err(overloaded.into());
            }
        };
        let event = if read.is_ok() { CacheEvent::Loaded } else { CacheEvent::LoadFailed };
        self.metrics.count(event);
        match read {
            Ok(ReadOutcome::Entry(entry)) => {
                let entry = policy.local.put(request, &Arc::new(entry));
                if let Some(shared) = shared {
                    let lifetime = policy.ages(request, &entry).if_error;
                    let ttl = lifetime.saturating_sub(entry.seen.began.elapsed());
                    shared.publish(lease, request, &entry, ttl).await;
                }
                Ok(Some((entry, Source::Upstream { collapsed: false })))
            }
            Ok(ReadOutcome::Absent(seen)) => {
                if let Some(shared) = shared {
                    shared.publish_absent(lease, request, &seen).await;
                }
                policy.local.put_absent(request, seen);
                Ok(None)
            }
            Err(error) => {
                if let Some(shared) = shared {
                    // If the database is unavailable from here, others may still reach it.
                    let concerns_all = policy.upstream.is_in_use();
                    shared.publish_failure(lease, &error, concerns_all).await;
                }
                Err(error.into())
            }
        }
    }
}
