//! Waiting for a condition, with a bound: tests never sleep and hope.

use std::cell::Cell;
use std::convert::Infallible;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::postgres::PostgresServer;

const PAUSE: Duration = Duration::from_millis(10);

/// For one look of [`seen`], however slow the machine is.
const LOOK: Duration = Duration::from_secs(60);

/// Of what makes a change seen: a timer, a connection, the database, its answer, a request and its
/// answer. Each may be late by as much as the machine is; nobody is held to a bound by a machine
/// that stands still.
const STEPS: u32 = 6;

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

/// Looks until what was changed at `since` is seen. What `look` finds instead, which is older, is a
/// failure only where it was asked for later than `bound` after the change, and later by what this
/// machine was late: a machine that is slow to ask, or to answer, has shown nothing wrong.
#[track_caller]
pub(crate) fn seen<F: Future<Output = Result<(), String>>>(
    since: Instant,
    bound: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let late = Cell::new(Duration::ZERO);
        let measured = lateness(&late);
        tokio::pin!(measured);
        loop {
            let begun = Instant::now();
            let found = tokio::select! {
                found = tokio::time::timeout(LOOK, look()) => found,
                never = &mut measured => match never {},
            };
            let found = found.unwrap_or_else(|_| panic!("{caller}: no answer: {what}"));
            let Err(older) = found else { return };
            if begun > since + bound + STEPS * late.get() {
                panic!("{caller}: not within {bound:?}: {what}: still {older}");
            }
            sleep(PAUSE).await;
        }
    }
}

/// Measures for ever by how much this machine is late at most, its database too: a look into the
/// change log waits for both.
async fn lateness(most: &Cell<Duration>) -> Infallible {
    let database = PostgresServer::shared().await.admin().await;
    loop {
        let begun = Instant::now();
        sleep(PAUSE).await;
        database.query_one("select 1", &[]).await.unwrap();
        most.set(begun.elapsed().saturating_sub(2 * PAUSE).max(most.get()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_millis(200);

    #[tokio::test]
    #[should_panic(expected = "still older")]
    async fn what_is_still_older_beyond_the_bound_is_a_failure() {
        seen(Instant::now(), BOUND, "a change", || async { Err("older".to_owned()) }).await;
    }

    #[tokio::test]
    async fn an_older_answer_that_was_asked_for_in_time_is_none_however_late_it_comes() {
        let looks = Cell::new(0);
        seen(Instant::now(), BOUND, "a change", || async {
            looks.set(looks.get() + 1);
            sleep(2 * BOUND).await;
            if looks.get() == 1 { Err("older".to_owned()) } else { Ok(()) }
        })
        .await;
        assert_eq!(looks.get(), 2);
    }
}
