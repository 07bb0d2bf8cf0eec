//! A budget that refills: so much at once, so much a second on average.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A token bucket.
#[derive(Debug)]
pub(crate) struct Budget {
    most: f64,
    per_second: f64,
    state: Mutex<(f64, Instant)>,
}

impl Budget {
    /// A full budget of `most`, refilled by `per_second`.
    pub(crate) fn new(most: u32, per_second: u32, now: Instant) -> Self {
        let most = f64::from(most);
        Self { most, per_second: f64::from(per_second), state: Mutex::new((most, now)) }
    }

    /// Takes one, if there is one.
    pub(crate) fn take(&self, now: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.left(*state, now);
        let granted = left >= 1.0;
        *state = (if granted { left - 1.0 } else { left }, now.max(state.1));
        granted
    }

    /// Takes back what was taken for nothing.
    pub(crate) fn give_back(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = (state.0 + 1.0).min(self.most);
    }

    /// Whether there is not even one.
    pub(crate) fn is_used_up(&self, now: Instant) -> bool {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.left(state, now) < 1.0
    }

    fn left(&self, (left, at): (f64, Instant), now: Instant) -> f64 {
        let refilled = now.saturating_duration_since(at).as_secs_f64() * self.per_second;
        (left + refilled).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_budget_is_spent_and_refills_up_to_its_most() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let budget = Budget::new(3, 2, start);
        assert_eq!((0..10).filter(|_| budget.take(start)).count(), 3);
        assert!(!budget.take(at(499)) && budget.is_used_up(at(499)));
        assert!(!budget.is_used_up(at(500)));
        assert!(budget.take(at(500)));
        assert!(!budget.take(at(500)));
        assert_eq!((0..10).filter(|_| budget.take(at(60_000))).count(), 3);
        budget.give_back();
        assert!(budget.take(at(60_000)) && !budget.take(at(60_000)));
        (0..10).for_each(|_| budget.give_back());
        assert_eq!((0..10).filter(|_| budget.take(at(60_000))).count(), 3, "never above its most");
    }
}
