//! The cache-miss path: take the fleet-wide lease and query the database, or wait for the replica
//! that holds it. Without Redis, or where the holder began too early for this request, this replica
//! queries the database itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::entry::Entry;
use super::lease::{Lease, LeaseAttempt, LeaseOutcome};
use super::load::Loader;
use super::read_limiter::Priority;
use super::reply::{EntryResult, ReadError, Source};
use crate::ops::CacheEvent;
use crate::registry::Request;
use crate::upstream::ReadOrder;

/// Pause before another attempt to take a lease whose holder read an outdated state.
const RETRY_INTERVAL: Duration = Duration::from_millis(25);

impl Loader {
    /// Fetches the entry and publishes it to both caches. `known` is the entry in Redis, as far as
    /// it was read.
    pub(super) async fn fetch(
        &self,
        request: &Request,
        known: Option<&Entry>,
        priority: Priority,
    ) -> EntryResult {
        let policy = &self.policy;
        let since = policy.local.newest(request).max(known.map(|entry| entry.seen.order()));
        let is_fresh = |entry: &Arc<Entry>| policy.is_fresh(request, entry);
        let deadline = Instant::now() + self.max_wait;
        while let Some(shared) = &self.shared
            && let Some(attempt) = shared.acquire_lease(request, known).await
        {
            let held = match attempt {
                LeaseAttempt::Acquired(lease) => {
                    // The previous holder may have published it after `known` was read.
                    if lease.has_other_entry
                        && let Some(entry) = shared.get(request).await.filter(is_fresh)
                    {
                        shared.release(Some(&lease), None).await;
                        return self.keep_shared(request, &entry);
                    }
                    return self.fetch_and_publish(request, since, Some(&lease), priority).await;
                }
                LeaseAttempt::Held(lease) => lease,
            };
            self.metrics.count(CacheEvent::Waited);
            match shared.wait(request, &held, deadline, is_fresh).await {
                Some(LeaseOutcome::Entry(entry)) => return self.keep_shared(request, &entry),
                Some(LeaseOutcome::Absent(seen)) if !policy.is_outdated(request, &seen) => {
                    policy.local.put_absent(request, seen);
                    return Err(ReadError::NotFound);
                }
                // The holder read before a change that is known here.
                Some(LeaseOutcome::Absent(_)) if Instant::now() < deadline => {
                    sleep(RETRY_INTERVAL).await;
                }
                Some(LeaseOutcome::Absent(_)) | None => break,
                // Without a retry, an entry that is known to be outdated would be served.
                Some(LeaseOutcome::Failed(_))
                    if policy.upstream.is_in_use() && policy.local.newest(request).is_some() => {}
                Some(LeaseOutcome::Failed(error)) => return Err(error.into()),
                Some(LeaseOutcome::LeaseEnded) => {}
            }
        }
        self.fetch_and_publish(request, since, None, priority).await
    }

    /// Reads from the upstream, and publishes the result to both caches.
    async fn fetch_and_publish(
        &self,
        request: &Request,
        since: Option<ReadOrder>,
        lease: Option<&Lease>,
        priority: Priority,
    ) -> EntryResult {
        let (policy, shared) = (&self.policy, &self.shared);
        let read = match self.read(request, since, priority).await {
            Ok(read) => read,
            Err(error) => {
                let mut told = None;
                if let ReadError::Upstream(cause) = &error {
                    self.metrics.count(CacheEvent::LoadFailed);
                    told = Some(&**cause);
                }
                if let Some(shared) = shared {
                    // If the database is unavailable or reads are shed here, another replica may
                    // still read it.
                    shared.release(lease, told.filter(|_| policy.upstream.is_in_use())).await;
                }
                return Err(error);
            }
        };
        self.metrics.count(CacheEvent::Loaded);
        let Some(body) = read.value else {
            if let Some(shared) = shared {
                shared.publish_absent(lease, request, &read.seen).await;
            }
            policy.local.put_absent(request, read.seen);
            return Err(ReadError::NotFound);
        };
        let entry = policy.local.put(request, &Arc::new(Entry::new(request, body, read.seen)));
        if let Some(shared) = shared {
            let lifetime = policy.ages(request, &entry).if_error;
            let ttl = lifetime.saturating_sub(entry.seen.began.elapsed());
            shared.publish(lease, request, &entry, ttl).await;
        }
        Ok((entry, Source::Upstream { collapsed: false }))
    }
}
