//! Bounds concurrent upstream reads: `max_misses` run, `queue` more wait up to `wait_ms`, the rest
//! are shed. Requests that share a read count once. Reads of outdated entries wait longer, in a queue
//! of their own, because one change may outdate everything.
//!
//! Background refreshes are shed first: they never wait, and use at most half of the permits.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::reply::ReadError;
use crate::ops::{GaugeGuard, Shed, ShedMetrics};

/// Concurrent reads of deep pages: these are slow, and must not take the whole pool.
const MAX_DEEP_PAGES: usize = 2;

/// Queue of reads of deep pages. Short, because these wait in addition to the common queue.
const DEEP_QUEUE: usize = 8;

/// Queue of reads of outdated entries, beside the common queue.
const OUTDATED_QUEUE: usize = 1024;

/// Whether a request waits for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Priority {
    /// A request waits.
    Foreground,
    /// A request waits, and the cached entry is outdated. Everything may become so at once.
    Outdated,
    /// No request waits: a refresh.
    Background,
}

/// The permits for reads, and the queues for them.
pub(super) struct ReadLimiter {
    misses: PermitQueue,
    deep_pages: PermitQueue,
    refreshes: Semaphore,
    wait: Duration,
    outdated_wait: Duration,
    metrics: ShedMetrics,
}

/// Permission to read, until it is dropped.
pub(super) struct ReadPermit<'a> {
    _deep: Option<SemaphorePermit<'a>>,
    _refresh: Option<SemaphorePermit<'a>>,
    _miss: SemaphorePermit<'a>,
    _gauge: GaugeGuard,
}

impl ReadLimiter {
    /// `max_reads` run at once; `queue` more wait for at most `wait`, and reads of outdated entries
    /// for at most `outdated_wait`.
    pub(super) fn new(
        max_reads: usize,
        queue: usize,
        wait: Duration,
        outdated_wait: Duration,
        metrics: ShedMetrics,
    ) -> Self {
        Self {
            misses: PermitQueue::new(max_reads, queue),
            deep_pages: PermitQueue::new(MAX_DEEP_PAGES, DEEP_QUEUE),
            refreshes: Semaphore::new((max_reads / 2).max(1)),
            wait,
            outdated_wait,
            metrics,
        }
    }

    /// Waits for a permit, if `priority` allows that.
    ///
    /// # Errors
    /// [`ReadError::Overloaded`]. It is counted.
    pub(super) async fn admit(
        &self,
        priority: Priority,
        is_deep: bool,
    ) -> Result<ReadPermit<'_>, ReadError> {
        let permit = self.permit(priority, is_deep).await;
        permit.ok_or(ReadError::Overloaded).inspect_err(|_| {
            self.metrics.shed(match priority {
                Priority::Background => Shed::Refresh,
                _ if is_deep => Shed::DeepPage,
                _ => Shed::Miss,
            });
        })
    }

    async fn permit(&self, priority: Priority, is_deep: bool) -> Option<ReadPermit<'_>> {
        let (refresh, wait) = match priority {
            Priority::Background => (Some(self.refreshes.try_acquire().ok()?), Duration::ZERO),
            Priority::Foreground => (None, self.wait),
            Priority::Outdated => (None, self.outdated_wait),
        };
        let end = Instant::now() + wait;
        let deep = match is_deep {
            true => Some(self.deep_pages.acquire(priority, end, &self.metrics).await?),
            false => None,
        };
        let miss = self.misses.acquire(priority, end, &self.metrics).await?;
        let gauge = self.metrics.reading();
        Some(ReadPermit { _deep: deep, _refresh: refresh, _miss: miss, _gauge: gauge })
    }
}

/// A number of permits, and bounded queues for them: one of reads of outdated entries, and one of all
/// others.
struct PermitQueue {
    permits: Semaphore,
    queue: Semaphore,
    outdated: Semaphore,
}

impl PermitQueue {
    fn new(permits: usize, queue: usize) -> Self {
        let [permits, queue, outdated] = [permits, queue, OUTDATED_QUEUE].map(Semaphore::new);
        Self { permits, queue, outdated }
    }

    /// A permit, unless all are taken or others wait for them. Then a request waits until `end`,
    /// first come, first served, unless the queue is full.
    async fn acquire(
        &self,
        priority: Priority,
        end: Instant,
        metrics: &ShedMetrics,
    ) -> Option<SemaphorePermit<'_>> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Some(permit);
        }
        let queue = match priority {
            Priority::Foreground => &self.queue,
            Priority::Outdated => &self.outdated,
            Priority::Background => return None,
        };
        let _queued = queue.try_acquire().ok()?;
        let _gauge = metrics.queued();
        timeout_at(end, self.permits.acquire()).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const WAIT: Duration = Duration::from_millis(200);

    fn read_limiter(misses: usize, queue: usize) -> ReadLimiter {
        ReadLimiter::new(misses, queue, WAIT, 2 * WAIT, ShedMetrics::default())
    }

    #[tokio::test(start_paused = true)]
    async fn reads_beyond_the_queue_are_shed_at_once_and_queued_ones_after_the_wait() {
        let read_limiter = read_limiter(2, 1);
        let admit = || read_limiter.admit(Priority::Foreground, false);
        let _first = admit().await.expect("a permit");
        let second = admit().await.expect("a permit");
        let mut waiting = Box::pin(admit());
        assert!(waiting.as_mut().now_or_never().is_none(), "it waits for its turn");
        assert!(
            matches!(admit().now_or_never(), Some(Err(ReadError::Overloaded))),
            "the queue is full"
        );
        drop(second);
        let third = waiting.await.expect("its turn");
        let begun = Instant::now();
        assert!(admit().await.is_err());
        assert!((WAIT..WAIT * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        drop(third);
        assert!(admit().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn reads_of_outdated_entries_wait_longer_in_a_queue_of_their_own() {
        let read_limiter = read_limiter(1, 0);
        let _first = read_limiter.admit(Priority::Foreground, false).await.expect("a permit");
        assert!(read_limiter.admit(Priority::Foreground, false).now_or_never().is_some());
        let begun = Instant::now();
        assert!(read_limiter.admit(Priority::Outdated, false).await.is_err());
        assert!((WAIT * 2..WAIT * 3).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn refreshes_never_wait_and_use_at_most_half_of_the_permits() {
        let read_limiter = read_limiter(4, 1);
        let refresh =
            || read_limiter.admit(Priority::Background, false).now_or_never().expect("at once");
        let miss = || read_limiter.admit(Priority::Foreground, false);
        let refreshes = [refresh(), refresh()];
        assert!(refreshes.iter().all(Result::is_ok) && refresh().is_err());
        let misses = [miss().await, miss().await];
        assert!(misses.iter().all(Result::is_ok));
        drop(refreshes);
        let more = [miss().await, miss().await];
        assert!(more.iter().all(Result::is_ok) && refresh().is_err(), "misses took all permits");
        let mut waiting = Box::pin(miss());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(more);
        drop(misses);
        assert!(waiting.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn deep_pages_are_bounded_and_do_not_block_other_reads() {
        let read_limiter = read_limiter(4, 100);
        let deep = || read_limiter.admit(Priority::Foreground, true);
        let _pages = [deep().await.expect("a permit"), deep().await.expect("a permit")];
        let mut waiting: Vec<_> = (0..DEEP_QUEUE).map(|_| Box::pin(deep())).collect();
        assert!(waiting.iter_mut().all(|page| page.as_mut().now_or_never().is_none()));
        assert!(matches!(deep().now_or_never(), Some(Err(ReadError::Overloaded))));
        assert!(read_limiter.admit(Priority::Foreground, false).await.is_ok());
        for page in waiting {
            assert!(page.await.is_err());
        }
    }
}
