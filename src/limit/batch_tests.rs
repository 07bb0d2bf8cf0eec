use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use super::*;

/// Crashes once.
#[derive(Debug, Default)]
struct Crashing(AtomicBool);

impl Store<u8> for Crashing {
    async fn admit(&self, asks: &[Acquire<u8>]) -> Result<Replies, RedisFailure> {
        assert!(self.0.swap(true, Ordering::Relaxed), "a crash that the test asks for");
        let resets_in = Duration::from_secs(1);
        let standing = |ask: &Acquire<u8>| WindowState {
            admitted: ask.requests,
            count: ask.requests,
            resets_in,
        };
        Ok(asks.iter().map(|ask| Ok(standing(ask))).collect())
    }

    fn is_unavailable(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn after_a_crash_nobody_waits_in_vain() {
    let batcher = Batcher::new(Crashing::default(), LimitMetrics::default());
    let crashed = join_all((0..5).map(|_| batcher.ask(1, 9))).await;
    assert!(crashed.iter().all(|outcome| matches!(outcome, Err(NotCounted::Lost(_)))));
    let next = join_all((0..5).map(|_| batcher.ask(1, 9))).await;
    let remaining: Vec<_> = next.iter().map(|o| o.map(|c| c.decision.remaining)).collect();
    assert_eq!(remaining, [8, 7, 6, 5, 4].map(Ok));
}

#[test]
fn a_process_that_ends_hangs_nobody() {
    let outcome = crate::sync::ending_runtime::on_an_ending_runtime(async {
        Batcher::new(Crashing::default(), LimitMetrics::default()).ask(1, 9).await
    });
    assert!(matches!(outcome, Some(Err(NotCounted::Lost(_)))), "{outcome:?}");
}
