//! The arithmetic of windows: pure functions without a clock or a store.

use std::time::Duration;

/// The length of a window.
pub const WINDOW: Duration = Duration::from_secs(60);

/// What a limiter decided about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is admitted.
    pub admitted: bool,
    /// The key's limit, in requests a minute.
    pub limit: u32,
    /// How many more requests this window admits.
    pub remaining: u32,
    /// The time until the window ends, at most [`WINDOW`].
    pub resets_in: Duration,
}

impl Decision {
    /// A decision in a window that has admitted `count` requests, including this one if it was
    /// admitted.
    pub fn of(admitted: bool, limit: u32, count: u32, resets_in: Duration) -> Self {
        Self {
            admitted,
            limit,
            remaining: limit.saturating_sub(count),
            resets_in: resets_in.min(WINDOW),
        }
    }

    /// The decision for a key with limit 0, which is never admitted.
    pub fn never() -> Self {
        Self { admitted: false, limit: 0, remaining: 0, resets_in: WINDOW }
    }

    /// Seconds until the window ends, rounded up: 0 to 60.
    pub fn reset_seconds(&self) -> u64 {
        self.resets_in.as_millis().div_ceil(1000).min(60) as u64
    }

    /// Whole seconds to wait after a refusal: min(60, floor(`resets_in` in ms / 1000) + 1), so 1 to
    /// 60. After that time the window has certainly ended.
    pub fn retry_after_seconds(&self) -> u64 {
        (self.resets_in.as_secs() + 1).min(60)
    }
}

/// The state of a key's window after a command to admit several requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WindowState {
    /// How many of the command's requests were admitted.
    pub(super) admitted: u32,
    /// Requests admitted in the window so far, including these.
    pub(super) count: u32,
    /// The time until the window ends.
    pub(super) resets_in: Duration,
}

impl WindowState {
    /// The decision about one of the command's requests, by its index in the order of arrival. The
    /// first ones are admitted, and each sees the count as if it had come alone.
    pub(super) fn decision(&self, index: u32, limit: u32) -> Decision {
        let admitted = index < self.admitted;
        let admitted_later = self.admitted.saturating_sub(index.saturating_add(1));
        Decision::of(admitted, limit, self.count.saturating_sub(admitted_later), self.resets_in)
    }

    /// Whether the window admits no more requests under `limit`.
    pub(super) fn is_full(&self, limit: u32) -> bool {
        self.count >= limit
    }
}

/// The share of one of `replicas` that counts by itself: ceil(limit / replicas).
pub(super) fn local_share(limit: u32, replicas: u32) -> u32 {
    limit.div_ceil(replicas.max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decision(resets_in_ms: u64) -> Decision {
        Decision::of(false, 30, 30, Duration::from_millis(resets_in_ms))
    }

    #[test]
    fn retry_after_by_hand() {
        for (resets_in_ms, retry_after, reset) in
            [(0, 1, 0), (1, 1, 1), (999, 1, 1), (1000, 2, 1), (59_000, 60, 59), (60_000, 60, 60)]
        {
            assert_eq!(decision(resets_in_ms).retry_after_seconds(), retry_after, "{resets_in_ms}");
            assert_eq!(decision(resets_in_ms).reset_seconds(), reset, "{resets_in_ms}");
        }
    }

    #[test]
    fn shares_by_hand() {
        assert_eq!(local_share(30, 1), 30);
        assert_eq!(local_share(30, 3), 10);
        assert_eq!(local_share(31, 3), 11);
        assert_eq!(local_share(1, 50), 1);
        assert_eq!(local_share(0, 3), 0);
        assert_eq!(local_share(u32::MAX, 0), u32::MAX);
    }

    #[test]
    fn requests_of_one_command_see_the_count_as_if_each_had_come_alone() {
        let window = WindowState { admitted: 3, count: 10, resets_in: WINDOW };
        let decisions: Vec<_> = (0..5).map(|index| window.decision(index, 10)).collect();
        let seen: Vec<_> = decisions.iter().map(|seen| (seen.admitted, seen.remaining)).collect();
        assert_eq!(seen, [(true, 2), (true, 1), (true, 0), (false, 0), (false, 0)]);
        assert!(window.is_full(10) && !window.is_full(11));
    }

    proptest! {
        #[test]
        fn waiting_as_told_outlasts_the_window(resets_in_ms in 0..=59_999_u64) {
            let decision = decision(resets_in_ms);
            let seconds = decision.retry_after_seconds();
            prop_assert!((1..=60).contains(&seconds));
            prop_assert!(seconds * 1000 > resets_in_ms);
            prop_assert!(decision.reset_seconds() <= seconds);
        }

        #[test]
        fn remaining_never_exceeds_the_limit(limit: u32, count: u32) {
            prop_assert!(Decision::of(true, limit, count, WINDOW).remaining <= limit);
        }

        #[test]
        fn shares_cover_the_limit(limit: u32, replicas in 1..100_u32) {
            let all = u64::from(local_share(limit, replicas)) * u64::from(replicas);
            prop_assert!(all >= u64::from(limit) && all < u64::from(limit) + u64::from(replicas));
        }
    }
}
