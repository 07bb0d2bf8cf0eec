//! A token bucket: bounds how often something happens, at once and on average.

use std::sync::Mutex;
use std::time::Instant;

use super::lock;

/// Tokens that are taken one by one and refilled at a constant rate up to a capacity.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    capacity: f64,
    per_second: f64,
    /// The tokens at the time of the last change.
    state: Mutex<(f64, Instant)>,
}

impl TokenBucket {
    /// A full bucket of `capacity` tokens that refills by `per_second`.
    pub(crate) fn new(capacity: u32, per_second: u32, now: Instant) -> Self {
        let capacity = f64::from(capacity);
        Self { capacity, per_second: f64::from(per_second), state: Mutex::new((capacity, now)) }
    }

    /// Takes a token, if there is one.
    pub(crate) fn try_take(&self, now: Instant) -> bool {
        let mut state = lock(&self.state);
        let tokens = self.tokens(*state, now);
        let granted = tokens >= 1.0;
        *state = (if granted { tokens - 1.0 } else { tokens }, now.max(state.1));
        granted
    }

    /// Whether there is no token to take.
    pub(crate) fn is_empty(&self, now: Instant) -> bool {
        self.tokens(*lock(&self.state), now) < 1.0
    }

    fn tokens(&self, (tokens, since): (f64, Instant), now: Instant) -> f64 {
        let refilled = now.saturating_duration_since(since).as_secs_f64() * self.per_second;
        (tokens + refilled).min(self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn tokens_are_spent_and_refilled_up_to_the_capacity() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let bucket = TokenBucket::new(3, 2, start);
        assert_eq!((0..10).filter(|_| bucket.try_take(start)).count(), 3);
        assert!(!bucket.try_take(at(499)));
        assert!(bucket.try_take(at(500)));
        assert!(!bucket.try_take(at(500)));
        assert_eq!((0..10).filter(|_| bucket.try_take(at(60_000))).count(), 3);
        assert!(bucket.is_empty(at(60_000)) && bucket.is_empty(at(60_499)));
        assert!(!bucket.is_empty(at(60_500)) && bucket.try_take(at(60_500)));
    }
}
