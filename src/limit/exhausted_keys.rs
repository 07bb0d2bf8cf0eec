//! Remembers keys whose window is exhausted, so that a flood of their requests costs Redis nothing.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::window::{Decision, WindowState};
use crate::sync::lock;

/// How many keys are remembered at once. Requests of further keys go to Redis.
const MAX_KEYS: usize = 65_536;

/// The number of keys from which keys of ended windows are removed.
const SWEEP_FROM: usize = 1024;

/// The store rounds the time until a window ends down to milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// Keys whose window is exhausted, each until the window ends.
#[derive(Debug)]
pub(super) struct ExhaustedKeys<K>(Mutex<ExhaustedWindows<K>>);

#[derive(Debug)]
struct ExhaustedWindows<K> {
    by_key: HashMap<K, ExhaustedWindow>,
    sweep_at: usize,
}

/// The end of a window is known with the uncertainty of a round trip, so both bounds are kept:
/// requests are refused here only until the window may have ended, and are told to come back when
/// it has certainly ended.
#[derive(Debug, Clone, Copy)]
struct ExhaustedWindow {
    limit: u32,
    refused_until: Instant,
    ended_by: Instant,
}

impl<K> Default for ExhaustedKeys<K> {
    fn default() -> Self {
        Self(Mutex::new(ExhaustedWindows { by_key: HashMap::new(), sweep_at: SWEEP_FROM }))
    }
}

impl<K: Eq + Hash + Copy> ExhaustedKeys<K> {
    /// Refuses a request of `key` at `now` if its window is known to be exhausted. Forgets
    /// the key if the window may have ended or the limit has changed.
    pub(super) fn check(&self, key: K, limit: u32, now: Instant) -> Option<Decision> {
        let mut windows = lock(&self.0);
        let window = *windows.by_key.get(&key)?;
        if window.limit != limit || window.refused_until <= now {
            windows.by_key.remove(&key);
            return None;
        }
        let resets_in = window.ended_by.saturating_duration_since(now);
        Some(Decision::of(false, limit, limit, resets_in))
    }

    /// Remembers the key if its window is exhausted, as a round trip with these times of sending
    /// and receiving reported.
    pub(super) fn mark_exhausted(
        &self,
        key: K,
        limit: u32,
        window: &WindowState,
        (sent, received): (Instant, Instant),
    ) {
        if !window.is_full(limit) {
            return;
        }
        let mut windows = lock(&self.0);
        if windows.by_key.len() >= windows.sweep_at {
            windows.by_key.retain(|_, window| window.refused_until > received);
            windows.sweep_at = (windows.by_key.len() * 2).clamp(SWEEP_FROM, MAX_KEYS);
        }
        if windows.by_key.len() < MAX_KEYS || windows.by_key.contains_key(&key) {
            let refused_until = sent + window.resets_in;
            let ended_by = received + window.resets_in + ROUNDING;
            windows.by_key.insert(key, ExhaustedWindow { limit, refused_until, ended_by });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn full(resets_in: Duration) -> WindowState {
        WindowState { admitted: 0, count: 5, resets_in }
    }

    #[test]
    fn a_key_is_refused_until_its_exhausted_window_may_have_ended() {
        let (keys, sent) = (ExhaustedKeys::default(), Instant::now());
        keys.mark_exhausted(1, 5, &full(1999 * MS), (sent, sent + 20 * MS));

        let refused = keys.check(1, 5, sent + 1000 * MS).expect("a refusal");
        assert_eq!((refused.admitted, refused.remaining), (false, 0));
        // The window ends 2,020 ms after the start at the latest; two seconds from here do.
        assert_eq!(refused.retry_after_seconds(), 2);
        assert!(keys.check(1, 5, sent + 1998 * MS).is_some());
        assert!(keys.check(1, 5, sent + 1999 * MS).is_none());
        assert!(lock(&keys.0).by_key.is_empty());
    }

    #[test]
    fn a_changed_limit_forgets_the_key() {
        let (keys, now) = (ExhaustedKeys::default(), Instant::now());
        for other in [4, 6] {
            keys.mark_exhausted(1, 5, &full(1000 * MS), (now, now));
            assert!(keys.check(1, 5, now).is_some());
            assert!(keys.check(1, other, now).is_none());
            assert!(keys.check(1, 5, now).is_none(), "it was forgotten");
        }
    }

    #[test]
    fn only_exhausted_windows_are_remembered_and_their_number_is_bounded() {
        let (keys, now) = (ExhaustedKeys::default(), Instant::now());
        keys.mark_exhausted(0, 6, &full(1000 * MS), (now, now));
        assert!(keys.check(0, 6, now).is_none());
        for key in 0..MAX_KEYS + 10 {
            keys.mark_exhausted(key, 5, &full(1000 * MS), (now, now));
        }
        assert_eq!(lock(&keys.0).by_key.len(), MAX_KEYS);
        assert!(keys.check(MAX_KEYS, 5, now).is_none());
        // Windows that have ended are removed.
        keys.mark_exhausted(MAX_KEYS, 5, &full(1000 * MS), (now + 1000 * MS, now + 1000 * MS));
        assert_eq!(lock(&keys.0).by_key.len(), 1);
    }
}
