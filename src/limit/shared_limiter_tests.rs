//! Requests whose batch ends without a reply.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::*;

/// Panics in the first round trip.
#[derive(Debug, Default)]
struct PanicsOnce(AtomicBool);

impl WindowStore<u8> for PanicsOnce {
    async fn admit(&self, acquires: &[Acquire<u8>]) -> Result<AcquireReplies, RedisFailure> {
        assert!(self.0.swap(true, Ordering::Relaxed), "a panic that the test asks for");
        let resets_in = Duration::from_secs(1);
        let window = |acquire: &Acquire<u8>| WindowState {
            admitted: acquire.requests,
            count: acquire.requests,
            resets_in,
        };
        Ok(acquires.iter().map(|acquire| Ok(window(acquire))).collect())
    }

    fn is_unavailable(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn after_a_panic_waiting_requests_fail_and_the_next_ones_are_counted() {
    let limiter = SharedLimiter::new(PanicsOnce::default(), LimitMetrics::default());
    let failed = join_all((0..5).map(|_| limiter.decide(1, 9))).await;
    assert!(failed.iter().all(|result| matches!(result, Err(NotCounted::Outage(_)))));
    let next = join_all((0..5).map(|_| limiter.decide(1, 9))).await;
    let remaining: Vec<_> =
        next.iter().map(|result| result.map(|c| c.decision.remaining)).collect();
    assert_eq!(remaining, [8, 7, 6, 5, 4].map(Ok));
}

/// Two servers, of which the first never replies.
#[derive(Debug)]
struct FirstHangs;

impl WindowStore<u8> for FirstHangs {
    async fn admit(&self, acquires: &[Acquire<u8>]) -> Result<AcquireReplies, RedisFailure> {
        if acquires.iter().any(|acquire| self.server(&acquire.key) == 0) {
            std::future::pending::<()>().await;
        }
        let window = WindowState { admitted: 1, count: 1, resets_in: Duration::from_secs(1) };
        Ok(acquires.iter().map(|_| Ok(window)).collect())
    }

    fn is_unavailable(&self) -> bool {
        false
    }

    fn server(&self, key: &u8) -> usize {
        usize::from(*key)
    }
}

#[tokio::test]
async fn a_server_that_hangs_delays_no_key_of_another() {
    let limiter = SharedLimiter::new(FirstHangs, LimitMetrics::default());
    let mut hangs = Box::pin(limiter.decide(0, 9));
    assert!((&mut hangs).now_or_never().is_none());
    for _ in 0..3 {
        assert!(limiter.decide(1, 9).await.is_ok());
    }
    assert!(hangs.now_or_never().is_none());
}

#[test]
fn nobody_waits_forever_on_a_runtime_that_shuts_down() {
    let result = crate::sync::ending_runtime::on_an_ending_runtime(async {
        SharedLimiter::new(PanicsOnce::default(), LimitMetrics::default()).decide(1, 9).await
    });
    assert!(matches!(result, Some(Err(NotCounted::Outage(_)))), "{result:?}");
}
