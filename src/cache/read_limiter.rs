//! How many answers are read from the upstream at once: so many, and so many that wait for their
//! turn, briefly. What does not fit is shed at once and costs the database nothing. One flight
//! counts once, however many wait for it; what is found in a cache does not come by here.
//!
//! What nobody waits for, the refreshes behind answers that were sent, goes first: it never waits,
//! and has half of the places at most.

use std::time::Duration;

use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::ops::{GaugeGuard, Shed, ShedMetrics};

/// Pages from far behind at a time: these are long, and must not take the whole pool.
const DEEP_PAGES: usize = 2;

/// Of these, so many may wait: no more, for what waits here waits before all others' queue.
const DEEP_QUEUE: usize = 8;

/// There is too much to read already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("too many answers are being read")]
pub(super) struct Overloaded;

/// Who waits for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// Somebody does.
    Foreground,
    /// Nobody does.
    Background,
}

/// What is being read, and what waits.
pub(super) struct ReadLimiter {
    misses: PermitQueue,
    deep_pages: PermitQueue,
    refreshes: Semaphore,
    wait: Duration,
    metrics: ShedMetrics,
}

/// The right to read, until it is dropped.
pub(super) struct ReadPermit<'a> {
    _deep: Option<SemaphorePermit<'a>>,
    _refresh: Option<SemaphorePermit<'a>>,
    _miss: SemaphorePermit<'a>,
    _counted: GaugeGuard,
}

impl ReadLimiter {
    /// `misses` at once; `queue` more wait, `wait` at most.
    pub(super) fn new(misses: usize, queue: usize, wait: Duration, metrics: ShedMetrics) -> Self {
        Self {
            misses: PermitQueue::new(misses, queue),
            deep_pages: PermitQueue::new(DEEP_PAGES, DEEP_QUEUE),
            refreshes: Semaphore::new((misses / 2).max(1)),
            wait,
            metrics,
        }
    }

    /// The right to read an answer, at once or after a short while.
    ///
    /// # Errors
    /// [`Overloaded`], which is counted.
    pub(super) async fn admit(
        &self,
        priority: Priority,
        is_deep: bool,
    ) -> Result<ReadPermit<'_>, Overloaded> {
        let admitted = match priority {
            Priority::Background => self.at_once(is_deep),
            Priority::Foreground => self.in_turn(is_deep).await,
        };
        admitted.inspect_err(|Overloaded| {
            self.metrics.shed(match priority {
                Priority::Background => Shed::Refresh,
                Priority::Foreground if is_deep => Shed::DeepPage,
                Priority::Foreground => Shed::Miss,
            });
        })
    }

    fn at_once(&self, is_deep: bool) -> Result<ReadPermit<'_>, Overloaded> {
        let refresh = self.refreshes.try_acquire().map_err(|_| Overloaded)?;
        let deep = is_deep.then(|| self.deep_pages.at_once()).transpose()?;
        Ok(self.place(deep, Some(refresh), self.misses.at_once()?))
    }

    async fn in_turn(&self, is_deep: bool) -> Result<ReadPermit<'_>, Overloaded> {
        let end = Instant::now() + self.wait;
        let deep = match is_deep {
            true => Some(self.deep_pages.in_turn(end, &self.metrics).await?),
            false => None,
        };
        let miss = self.misses.in_turn(end, &self.metrics).await?;
        Ok(self.place(deep, None, miss))
    }

    fn place<'a>(
        &self,
        deep: Option<SemaphorePermit<'a>>,
        refresh: Option<SemaphorePermit<'a>>,
        miss: SemaphorePermit<'a>,
    ) -> ReadPermit<'a> {
        ReadPermit { _deep: deep, _refresh: refresh, _miss: miss, _counted: self.metrics.reading() }
    }
}

/// So many places, and a queue before them.
struct PermitQueue {
    places: Semaphore,
    queue: Semaphore,
}

impl PermitQueue {
    fn new(places: usize, queue: usize) -> Self {
        Self { places: Semaphore::new(places), queue: Semaphore::new(queue) }
    }

    /// A place, unless all are taken or others wait for them.
    fn at_once(&self) -> Result<SemaphorePermit<'_>, Overloaded> {
        self.places.try_acquire().map_err(|_| Overloaded)
    }

    /// A place before `end`; first come, first served. Whoever finds the queue full does not wait.
    async fn in_turn(
        &self,
        end: Instant,
        metrics: &ShedMetrics,
    ) -> Result<SemaphorePermit<'_>, Overloaded> {
        if let Ok(place) = self.at_once() {
            return Ok(place);
        }
        let _queued = self.queue.try_acquire().map_err(|_| Overloaded)?;
        let _counted = metrics.queued();
        match timeout_at(end, self.places.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Overloaded),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const WAIT: Duration = Duration::from_millis(200);

    fn read_limiter(misses: usize, queue: usize) -> ReadLimiter {
        ReadLimiter::new(misses, queue, WAIT, ShedMetrics::default())
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_is_shed_at_once_and_what_waits_is_shed_in_time() {
        let read_limiter = read_limiter(2, 1);
        let admit = || read_limiter.admit(Priority::Foreground, false);
        let _first = admit().await.expect("a place");
        let second = admit().await.expect("a place");
        let mut waiting = Box::pin(admit());
        assert!(waiting.as_mut().now_or_never().is_none(), "it waits for its turn");
        assert!(matches!(admit().now_or_never(), Some(Err(Overloaded))), "the queue is full");
        drop(second);
        let third = waiting.await.expect("its turn");
        let begun = Instant::now();
        assert!(admit().await.is_err());
        assert!((WAIT..WAIT * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        drop(third);
        assert!(admit().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn refreshes_never_wait_and_leave_half_of_the_places() {
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
        assert!(more.iter().all(Result::is_ok) && refresh().is_err(), "misses took all places");
        let mut waiting = Box::pin(miss());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(more);
        drop(misses);
        assert!(waiting.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn deep_walks_are_few_and_keep_nobody_else_out() {
        let read_limiter = read_limiter(4, 100);
        let deep = || read_limiter.admit(Priority::Foreground, true);
        let _walks = [deep().await.expect("a walk"), deep().await.expect("a walk")];
        let mut waiting: Vec<_> = (0..DEEP_QUEUE).map(|_| Box::pin(deep())).collect();
        assert!(waiting.iter_mut().all(|walk| walk.as_mut().now_or_never().is_none()));
        assert!(matches!(deep().now_or_never(), Some(Err(Overloaded))));
        assert!(read_limiter.admit(Priority::Foreground, false).await.is_ok());
        for walk in waiting {
            assert!(walk.await.is_err());
        }
    }
}
