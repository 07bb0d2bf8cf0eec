//! A circuit breaker: no caller waits for a store that is known to be unavailable.
//!
//! While it is closed, every call passes. It opens at once when the store refuses a call, and after
//! two timeouts in a row; a timeout counts only if no other call got a reply meanwhile, since a
//! store that replies to others is available, however busy. While it is open, calls are rejected
//! without waiting, except that one in each [`PROBE_INTERVAL`] is sent in the background as a
//! probe. The first success closes it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::lock;

/// Timeouts in a row that open a breaker.
const TIMEOUTS_TO_OPEN: u32 = 2;

/// From one probe to the next.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// Send the call and wait for the reply.
    Call,
    /// Don't wait, but send the call in the background to find out whether the store is available.
    Probe,
    /// Don't send the call.
    Reject,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The store replied.
    Answered,
    /// There was no reply in time, or the connection broke.
    Lost,
    /// The store refused the call, or its address the connection.
    Refused,
}

/// The breaker of one store.
#[derive(Debug)]
pub struct Breaker {
    name: Cow<'static, str>,
    // Read on every call; the lock is taken only to change something.
    open: AtomicBool,
    open_count: Arc<AtomicU64>,
    state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
struct BreakerState {
    losses: u32,
    answered: Option<Instant>,
    next_probe: Option<Instant>,
}

impl Breaker {
    /// A closed breaker. The log calls the store `name` when the breaker opens and closes.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self::counted_in(Arc::default(), name)
    }

    /// A closed breaker that adds each opening to `open_count`, which others may share.
    pub fn counted_in(open_count: Arc<AtomicU64>, name: impl Into<Cow<'static, str>>) -> Self {
        let (name, state) = (name.into(), Mutex::default());
        Self { name, open: AtomicBool::new(false), open_count, state }
    }

    /// Whether calls are rejected.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// How often it and the breakers that share its count have opened.
    pub fn open_count(&self) -> u64 {
        self.open_count.load(Ordering::Relaxed)
    }

    /// Whether [`Self::permit`] would return [`Permit::Reject`] at `now`.
    pub fn rejects(&self, now: Instant) -> bool {
        self.is_open() && lock(&self.state).next_probe.is_some_and(|at| now < at)
    }

    /// What a caller may do at `now`.
    pub fn permit(&self, now: Instant) -> Permit {
        if !self.is_open() {
            return Permit::Call;
        }
        let mut state = lock(&self.state);
        match state.next_probe {
            Some(at) if now < at => Permit::Reject,
            _ => {
                state.next_probe = Some(now + PROBE_INTERVAL);
                Permit::Probe
            }
        }
    }

    /// Records the outcome of a call that began at `begun` and ended at `now`. If this opens the
    /// breaker, the log gives `reason` for it.
    pub fn record(
        &self,
        outcome: CallOutcome,
        begun: Instant,
        now: Instant,
        reason: impl FnOnce() -> Option<String>,
    ) {
        match outcome {
            CallOutcome::Answered => self.answered(now),
            CallOutcome::Lost if lock(&self.state).answered.is_some_and(|at| at > begun) => {}
            CallOutcome::Lost => self.failed(1, now, reason),
            CallOutcome::Refused => self.failed(TIMEOUTS_TO_OPEN, now, reason),
        }
    }

    fn answered(&self, now: Instant) {
        let mut state = lock(&self.state);
        state.losses = 0;
        state.answered = Some(now);
        if self.open.swap(false, Ordering::AcqRel) {
            tracing::info!(store = &*self.name, "store available again");
        }
    }

    fn failed(&self, weight: u32, now: Instant, reason: impl FnOnce() -> Option<String>) {
        let mut state = lock(&self.state);
        state.losses = state.losses.saturating_add(weight);
        if state.losses < TIMEOUTS_TO_OPEN {
            return;
        }
        if !self.open.swap(true, Ordering::AcqRel) {
            state.next_probe = Some(now + PROBE_INTERVAL);
            self.open_count.fetch_add(1, Ordering::Relaxed);
            let (store, reason) = (&*self.name, reason());
            tracing::warn!(store, reason, "store unavailable; continuing without it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(breaker: &Breaker, outcome: CallOutcome, begun: Instant, now: Instant) {
        breaker.record(outcome, begun, now, || None);
    }

    #[test]
    fn two_losses_in_a_row_open_it_and_a_reply_in_between_prevents_that() {
        let (breaker, now) = (Breaker::new("test"), Instant::now());
        record(&breaker, CallOutcome::Lost, now, now);
        record(&breaker, CallOutcome::Answered, now, now);
        record(&breaker, CallOutcome::Lost, now, now);
        assert_eq!(breaker.permit(now), Permit::Call);
        record(&breaker, CallOutcome::Lost, now, now);
        assert_eq!(breaker.permit(now), Permit::Reject);
        record(&breaker, CallOutcome::Lost, now, now);
        assert_eq!(breaker.open_count(), 1, "it is open already");
    }

    #[test]
    fn while_open_it_sends_one_probe_an_interval_and_the_first_reply_closes_it() {
        let (breaker, now) = (Breaker::new("test"), Instant::now());
        record(&breaker, CallOutcome::Refused, now, now);
        assert_eq!(breaker.permit(now), Permit::Reject);
        assert_eq!(breaker.permit(now + PROBE_INTERVAL), Permit::Probe);
        assert_eq!(breaker.permit(now + PROBE_INTERVAL), Permit::Reject);
        record(&breaker, CallOutcome::Lost, now + PROBE_INTERVAL, now + PROBE_INTERVAL);
        assert_eq!(breaker.permit(now + 2 * PROBE_INTERVAL), Permit::Probe);
        record(&breaker, CallOutcome::Answered, now + 2 * PROBE_INTERVAL, now + 2 * PROBE_INTERVAL);
        assert_eq!(breaker.permit(now + 2 * PROBE_INTERVAL), Permit::Call);
        // The losses before it closed do not count any more.
        record(&breaker, CallOutcome::Lost, now + 3 * PROBE_INTERVAL, now + 3 * PROBE_INTERVAL);
        assert_eq!(breaker.permit(now + 3 * PROBE_INTERVAL), Permit::Call);
    }

    #[test]
    fn a_loss_does_not_count_if_another_call_got_a_reply_since_it_began() {
        let (breaker, begun) = (Breaker::new("test"), Instant::now());
        let [answered, lost] = [1, 2].map(|second| begun + Duration::from_secs(second));
        record(&breaker, CallOutcome::Answered, begun, answered);
        for _ in 0..10 {
            record(&breaker, CallOutcome::Lost, begun, lost);
        }
        assert_eq!(breaker.permit(lost), Permit::Call);
        for _ in 0..2 {
            record(&breaker, CallOutcome::Lost, answered, lost);
        }
        assert_eq!(breaker.permit(lost), Permit::Reject);
    }
}
