//! Waiting for a condition, with a bound: tests never sleep and hope.

use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep};

const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `condition` holds; panics with `what`, at the caller, when `bound` has passed.
#[track_caller]
pub(crate) fn eventually<F: Future<Output = bool>>(
    bound: Duration,
    what: &str,
    mut condition: impl FnMut() -> F,
) -> impl Future<Output = ()> {
    until(bound, what, move || {
        let holds = condition();
        async move { holds.await.then_some(()) }
    })
}

/// Waits until `attempt` gives a value; panics with `what`, at the caller, when `bound` has passed,
/// also in the middle of an attempt.
#[track_caller]
pub(crate) fn until<T, F: Future<Output = Option<T>>>(
    bound: Duration,
    what: &str,
    mut attempt: impl FnMut() -> F,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let end = Instant::now() + bound;
        loop {
            match tokio::time::timeout_at(end, attempt()).await {
                Ok(Some(value)) => return value,
                Ok(None) if Instant::now() < end => sleep(PAUSE).await,
                _ => panic!("{caller}: not within {bound:?}: {what}"),
            }
        }
    }
}
