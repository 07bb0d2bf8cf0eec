//! Counts windows in this process alone: always if no Redis is configured, else during its outages.
//!
//! Windows outlive an outage, so a Redis that fails repeatedly does not open new ones. When a
//! window that opened before an outage ends during it, the next window begins with the count of
//! what was admitted since the outage began. So an outage within a window of the shared count adds
//! one share to it, never two.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::window::{Decision, WINDOW, local_share};
use crate::sync::lock;

/// The number of windows from which ended ones are removed.
const SWEEP_FROM: usize = 1024;

/// Counts windows in memory. Holds one window for each key that was used in the last minute. Only
/// authenticated keys reach it, so made-up keys can't fill it.
#[derive(Debug)]
pub(super) struct LocalLimiter<K> {
    replicas: u32,
    windows: Mutex<LocalWindows<K>>,
}

#[derive(Debug)]
struct LocalWindows<K> {
    by_key: HashMap<K, LocalWindow>,
    sweep_at: usize,
}

#[derive(Debug, Clone, Copy)]
struct LocalWindow {
    began: Instant,
    count: u32,
    /// The number of the outage in which it was used last.
    outage: u32,
    /// How many requests had been admitted when that outage began.
    before_outage: u32,
}

impl LocalWindow {
    /// The window after this one. It begins with a count of 0, unless this one opened before the
    /// outage.
    fn next(self, began: Instant, outage: u32) -> Self {
        let opened_before_outage = self.outage == outage && self.before_outage > 0;
        let count = if opened_before_outage { self.count - self.before_outage } else { 0 };
        Self { began, count, outage, before_outage: 0 }
    }

    fn enter_outage(&mut self, outage: u32) {
        if outage > self.outage {
            self.outage = outage;
            self.before_outage = self.count;
        }
    }

    fn resets_in(&self, now: Instant) -> Duration {
        WINDOW.saturating_sub(now.saturating_duration_since(self.began))
    }
}

impl<K: Eq + Hash + Copy> LocalLimiter<K> {
    /// A limiter for one of `replicas` replicas, which admits its share of each limit.
    pub(super) fn new(replicas: u32) -> Self {
        let windows = LocalWindows { by_key: HashMap::new(), sweep_at: SWEEP_FROM };
        Self { replicas, windows: Mutex::new(windows) }
    }

    /// Decides about one request of `key` at `now`, during the outage with this number. Without
    /// Redis the number is always 0.
    pub(super) fn decide(&self, key: K, limit: u32, outage: u32, now: Instant) -> Decision {
        let share = local_share(limit, self.replicas);
        let mut windows = lock(&self.windows);
        windows.sweep(now);
        let opened = LocalWindow { began: now, count: 0, outage, before_outage: 0 };
        let window = windows.by_key.entry(key).or_insert(opened);
        if window.resets_in(now).is_zero() {
            *window = window.next(now, outage);
        }
        window.enter_outage(outage);
        let admitted = window.count < share;
        window.count += u32::from(admitted);
        let remaining = share.saturating_sub(window.count);
        Decision { admitted, limit, remaining, resets_in: window.resets_in(now) }
    }
}

impl<K: Eq + Hash> LocalWindows<K> {
    /// Removes ended windows each time the number of windows has doubled, which is constant work
    /// for each request.
    fn sweep(&mut self, now: Instant) {
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|_, window| !window.resets_in(now).is_zero());
            self.sweep_at = (self.by_key.len() * 2).max(SWEEP_FROM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_share_passes_in_a_window() {
        let (limiter, now) = (LocalLimiter::new(3), Instant::now());
        let admitted = (0..100).filter(|_| limiter.decide(1, 20, 0, now).admitted).count();
        assert_eq!(admitted, 7);
        assert!(limiter.decide(2, 20, 0, now).admitted, "keys don't share a window");
    }

    #[test]
    fn a_window_opens_with_the_first_request_and_refusals_do_not_prolong_it() {
        let (limiter, start) = (LocalLimiter::new(1), Instant::now());
        let at = |ms| limiter.decide(1, 1, 0, start + Duration::from_millis(ms));
        assert!(at(0).admitted);
        assert!(!at(30_000).admitted);
        let last = at(59_999);
        assert_eq!((last.admitted, last.retry_after_seconds()), (false, 1));
        assert!(at(60_000).admitted);
    }

    #[test]
    fn a_raised_limit_helps_at_once_and_a_lowered_one_refuses_at_once() {
        let (limiter, now) = (LocalLimiter::new(1), Instant::now());
        (0..5).for_each(|_| assert!(limiter.decide(1, 5, 0, now).admitted));
        assert!(!limiter.decide(1, 5, 0, now).admitted);
        assert!(limiter.decide(1, 6, 0, now).admitted);
        let lowered = limiter.decide(1, 2, 0, now);
        assert_eq!((lowered.admitted, lowered.remaining), (false, 0));
    }

    #[test]
    fn an_outage_adds_one_share_also_when_an_older_window_ends_in_it() {
        let (limiter, start) = (LocalLimiter::new(1), Instant::now());
        let passed = |outage, seconds| {
            let at = start + Duration::from_secs(seconds);
            (0..20).filter(|_| limiter.decide(1, 10, outage, at).admitted).count()
        };
        assert!(limiter.decide(1, 10, 1, start).admitted);
        // The next outage begins late in that window, and lasts.
        assert_eq!((passed(2, 50), passed(2, 60), passed(2, 119)), (9, 1, 0));
        assert_eq!((passed(2, 120), passed(2, 179), passed(2, 180)), (10, 0, 10));
        // Outages within one window share its count.
        assert_eq!((passed(3, 181), passed(4, 200), passed(5, 240)), (0, 0, 10));
    }

    #[test]
    fn ended_windows_are_forgotten() {
        let (limiter, start) = (LocalLimiter::new(1), Instant::now());
        for key in 0..10_000_u32 {
            limiter.decide(key, 1, 0, start + Duration::from_millis(u64::from(key) * 1000));
        }
        let windows = limiter.windows.lock().expect("not poisoned");
        assert!(windows.by_key.len() <= SWEEP_FROM, "{}", windows.by_key.len());
    }
}
