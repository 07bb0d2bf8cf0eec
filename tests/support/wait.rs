//! Waiting for a condition, with a bound: tests never sleep for a guessed time.

use std::cell::Cell;
use std::convert::Infallible;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::postgres::PostgresServer;

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// For one attempt of [`visible_within`], however slow the machine is.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of steps until a change is visible: a timer, a connection, the database, its reply, a
/// request and its response. Each may be late by the delay of the machine, so the bound is extended
/// by it.
const STEPS: u32 = 6;

/// Waits until `condition` holds; panics with `what`, at the caller, after `bound`.
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

/// Waits until `attempt` gives a value; panics with `what`, at the caller, after `bound`, also in
/// the middle of an attempt.
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
                Ok(None) if Instant::now() < end => sleep(POLL_INTERVAL).await,
                _ => panic!("{caller}: not within {bound:?}: {what}"),
            }
        }
    }
}

/// Polls until the change made at `since` is visible. `poll` returns a description of an older
/// state as its error; that is a failure only if the poll began later than `bound` after the
/// change, plus the measured delay of this machine. A machine that is slow to send or receive
/// proves nothing.
#[track_caller]
pub(crate) fn visible_within<F: Future<Output = Result<(), String>>>(
    since: Instant,
    bound: Duration,
    what: &str,
    mut poll: impl FnMut() -> F,
) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let late = Cell::new(Duration::ZERO);
        let measured = lateness(&late);
        tokio::pin!(measured);
        loop {
            let begun = Instant::now();
            let found = tokio::select! {
                found = tokio::time::timeout(ATTEMPT_TIMEOUT, poll()) => found,
                never = &mut measured => match never {},
            };
            let found = found.unwrap_or_else(|_| panic!("{caller}: no response: {what}"));
            let Err(older) = found else { return };
            if begun > since + bound + STEPS * late.get() {
                panic!("{caller}: not within {bound:?}: {what}: still {older}");
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// Measures for ever the largest delay of this machine and its database: polls of the change log
/// wait for both.
async fn lateness(max: &Cell<Duration>) -> Infallible {
    let database = PostgresServer::shared().await.admin().await;
    loop {
        let begun = Instant::now();
        sleep(POLL_INTERVAL).await;
        database.query_one("select 1", &[]).await.unwrap();
        max.set(begun.elapsed().saturating_sub(2 * POLL_INTERVAL).max(max.get()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_millis(200);

    #[tokio::test]
    #[should_panic(expected = "still older")]
    async fn an_older_state_beyond_the_bound_is_a_failure() {
        visible_within(Instant::now(), BOUND, "a change", || async { Err("older".to_owned()) })
            .await;
    }

    #[tokio::test]
    async fn an_older_state_requested_in_time_is_no_failure_however_late_it_arrives() {
        let polls = Cell::new(0);
        visible_within(Instant::now(), BOUND, "a change", || async {
            polls.set(polls.get() + 1);
            sleep(2 * BOUND).await;
            if polls.get() == 1 { Err("older".to_owned()) } else { Ok(()) }
        })
        .await;
        assert_eq!(polls.get(), 2);
    }
}
