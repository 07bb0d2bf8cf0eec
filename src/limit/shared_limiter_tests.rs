//! Requests whose batch ends without a reply.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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

#[test]
fn nobody_waits_forever_on_a_runtime_that_shuts_down() {
    let result = crate::sync::ending_runtime::on_an_ending_runtime(async {
        SharedLimiter::new(PanicsOnce::default(), LimitMetrics::default()).decide(1, 9).await
    });
    assert!(matches!(result, Some(Err(NotCounted::Outage(_)))), "{result:?}");
}
