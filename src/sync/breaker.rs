//! A breaker: nobody waits for a store that is known to be away.
//!
//! Closed, every call passes. It opens at once on a refusal, and after two timeouts in a row,
//! where one counts only if nobody was answered meanwhile: a store that answers others is there,
//! however crowded the way to it. Open, calls are turned away without waiting, and once
//! per pause one of them is told to try the store behind its caller's back. The first success
//! closes it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Timeouts in a row that open a breaker.
const TIMEOUTS_TO_OPEN: u32 = 2;

/// Between one probe and the next.
const PAUSE: Duration = Duration::from_millis(500);

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// Call, and wait for the answer.
    Call,
    /// Don't wait; but send this command in the background to see whether the store is back.
    Probe,
    /// Don't call.
    Reject,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The store answered.
    Answered,
    /// No answer in time, or the connection died.
    Lost,
    /// The store, or its address, said no.
    Refused,
}

/// See the module.
#[derive(Debug)]
pub struct Breaker {
    name: Cow<'static, str>,
    // Read on every call; the lock is taken only when there is something to change.
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
    /// A closed breaker. `name` stands in the log when it opens and closes.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self::counted_in(Arc::default(), name)
    }

    /// A closed breaker whose openings are counted with those of others.
    pub fn counted_in(open_count: Arc<AtomicU64>, name: impl Into<Cow<'static, str>>) -> Self {
        let (name, state) = (name.into(), Mutex::default());
        Self { name, open: AtomicBool::new(false), open_count, state }
    }

    /// Whether calls are turned away.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// How often it has opened, with those that are counted with it.
    pub fn open_count(&self) -> u64 {
        self.open_count.load(Ordering::Relaxed)
    }

    /// What a caller may do at `now`.
    pub fn permit(&self, now: Instant) -> Permit {
        if !self.is_open() {
            return Permit::Call;
        }
        let mut state = self.lock();
        match state.next_probe {
            Some(at) if now < at => Permit::Reject,
            _ => {
                state.next_probe = Some(now + PAUSE);
                Permit::Probe
            }
        }
    }

    /// Takes in how a call that began at `begun` ended at `now`.
    pub fn record(&self, outcome: CallOutcome, begun: Instant, now: Instant) {
        self.record_because(outcome, begun, now, || None);
    }

    /// As [`Self::record`]; `why` is asked for the log's sake, where this opens it.
    pub fn record_because(
        &self,
        outcome: CallOutcome,
        begun: Instant,
        now: Instant,
        why: impl FnOnce() -> Option<String>,
    ) {
        match outcome {
            CallOutcome::Answered => self.answered(now),
            CallOutcome::Lost if self.lock().answered.is_some_and(|at| at > begun) => {}
            CallOutcome::Lost => self.failed(1, now, why),
            CallOutcome::Refused => self.failed(TIMEOUTS_TO_OPEN, now, why),
        }
    }

    fn answered(&self, now: Instant) {
        let mut state = self.lock();
        state.losses = 0;
        state.answered = Some(now);
        if self.open.swap(false, Ordering::AcqRel) {
            tracing::info!(store = &*self.name, "in use again");
        }
    }

    fn failed(&self, weight: u32, now: Instant, why: impl FnOnce() -> Option<String>) {
        let mut state = self.lock();
        state.losses = state.losses.saturating_add(weight);
        if state.losses < TIMEOUTS_TO_OPEN {
            return;
        }
        if !self.open.swap(true, Ordering::AcqRel) {
            state.next_probe = Some(now + PAUSE);
            self.open_count.fetch_add(1, Ordering::Relaxed);
            let (store, why) = (&*self.name, why());
            tracing::warn!(store, why, "not in use: it refuses or does not answer");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BreakerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_losses_in_a_row_open_it_and_an_answer_between_does_not() {
        let (breaker, now) = (Breaker::new("test"), Instant::now());
        breaker.record(CallOutcome::Lost, now, now);
        breaker.record(CallOutcome::Answered, now, now);
        breaker.record(CallOutcome::Lost, now, now);
        assert_eq!(breaker.permit(now), Permit::Call);
        breaker.record(CallOutcome::Lost, now, now);
        assert_eq!(breaker.permit(now), Permit::Reject);
        breaker.record(CallOutcome::Lost, now, now);
        assert_eq!(breaker.open_count(), 1, "it is open already");
    }

    #[test]
    fn open_it_sends_one_probe_a_pause_and_closes_on_the_first_answer() {
        let (breaker, now) = (Breaker::new("test"), Instant::now());
        breaker.record(CallOutcome::Refused, now, now);
        assert_eq!(breaker.permit(now), Permit::Reject);
        assert_eq!(breaker.permit(now + PAUSE), Permit::Probe);
        assert_eq!(breaker.permit(now + PAUSE), Permit::Reject);
        breaker.record(CallOutcome::Lost, now + PAUSE, now + PAUSE);
        assert_eq!(breaker.permit(now + 2 * PAUSE), Permit::Probe);
        breaker.record(CallOutcome::Answered, now + 2 * PAUSE, now + 2 * PAUSE);
        assert_eq!(breaker.permit(now + 2 * PAUSE), Permit::Call);
        // The losses before do not count any more.
        breaker.record(CallOutcome::Lost, now + 3 * PAUSE, now + 3 * PAUSE);
        assert_eq!(breaker.permit(now + 3 * PAUSE), Permit::Call);
    }

    #[test]
    fn a_loss_does_not_count_where_somebody_was_answered_since_it_began() {
        let (breaker, begun) = (Breaker::new("test"), Instant::now());
        let [answered, lost] = [1, 2].map(|second| begun + Duration::from_secs(second));
        breaker.record(CallOutcome::Answered, begun, answered);
        for _ in 0..10 {
            breaker.record(CallOutcome::Lost, begun, lost);
        }
        assert_eq!(breaker.permit(lost), Permit::Call);
        for _ in 0..2 {
            breaker.record(CallOutcome::Lost, answered, lost);
        }
        assert_eq!(breaker.permit(lost), Permit::Reject);
    }
}
