//! A budget that refills: so much at once, so much a second on average.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A token bucket.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    capacity: f64,
    per_second: f64,
    state: Mutex<(f64, Instant)>,
}

impl TokenBucket {
    /// A full budget of `capacity`, refilled by `per_second`.
    pub(crate) fn new(capacity: u32, per_second: u32, now: Instant) -> Self {
        let capacity = f64::from(capacity);
        Self { capacity, per_second: f64::from(per_second), state: Mutex::new((capacity, now)) }
    }

    /// Takes one, if there is one.
    pub(crate) fn try_take(&self, now: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.left(*state, now);
        let granted = left >= 1.0;
        *state = (if granted { left - 1.0 } else { left }, now.max(state.1));
        granted
    }

    /// Takes back what was taken for nothing.
    pub(crate) fn refund(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = (state.0 + 1.0).min(self.capacity);
    }

    /// Whether there is not even one.
    pub(crate) fn is_empty(&self, now: Instant) -> bool {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.left(state, now) < 1.0
    }

    fn left(&self, (left, at): (f64, Instant), now: Instant) -> f64 {
        let refilled = now.saturating_duration_since(at).as_secs_f64() * self.per_second;
        (left + refilled).min(self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_budget_is_spent_and_refills_up_to_its_capacity() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let bucket = TokenBucket::new(3, 2, start);
        assert_eq!((0..10).filter(|_| bucket.try_take(start)).count(), 3);
        assert!(!bucket.try_take(at(499)) && bucket.is_empty(at(499)));
        assert!(!bucket.is_empty(at(500)));
        assert!(bucket.try_take(at(500)));
        assert!(!bucket.try_take(at(500)));
        assert_eq!((0..10).filter(|_| bucket.try_take(at(60_000))).count(), 3);
        bucket.refund();
        assert!(bucket.try_take(at(60_000)) && !bucket.try_take(at(60_000)));
        (0..10).for_each(|_| bucket.refund());
        assert_eq!(
            (0..10).filter(|_| bucket.try_take(at(60_000))).count(),
            3,
            "never above its capacity"
        );
    }
}
