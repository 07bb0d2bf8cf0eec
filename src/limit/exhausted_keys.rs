//! Keys known to be at their limit, so that a flood by one of them costs Redis nothing.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::window::{Decision, WindowState};

/// Keys remembered at once. Beyond it nothing is wrong: the next ones ask Redis.
const MAX_KEYS: usize = 65_536;

/// Below this many keys nothing is swept.
const SWEEP_FROM: usize = 1024;

/// The store tells what is left of a window in whole milliseconds, rounded down.
const ROUNDING: Duration = Duration::from_millis(1);

/// Keys whose window is used up, each until the window ends.
#[derive(Debug)]
pub(super) struct ExhaustedKeys<K>(Mutex<ExhaustedWindows<K>>);

#[derive(Debug)]
struct ExhaustedWindows<K> {
    by_key: HashMap<K, ExhaustedWindow>,
    sweep_at: usize,
}

/// The window's end is known but for the length of the round trip that told it, and both its
/// bounds are kept: nobody is refused here after the window may have ended, and nobody is told to
/// come back before it certainly has.
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
    /// The refusal of a request of `key` at `now`, if its window is known to be full. What was
    /// known is forgotten when the window has ended or the limit is another one.
    pub(super) fn check(&self, key: K, limit: u32, now: Instant) -> Option<Decision> {
        let mut known = self.lock();
        let full = *known.by_key.get(&key)?;
        if full.limit != limit || full.refused_until <= now {
            known.by_key.remove(&key);
            return None;
        }
        let resets_in = full.ended_by.saturating_duration_since(now);
        Some(Decision::of(false, limit, limit, resets_in))
    }

    /// Learns how a window stands from a round trip that was `sent` and `received` at these times.
    pub(super) fn mark_exhausted(
        &self,
        key: K,
        limit: u32,
        standing: &WindowState,
        (sent, received): (Instant, Instant),
    ) {
        if !standing.is_full(limit) {
            return;
        }
        let mut known = self.lock();
        if known.by_key.len() >= known.sweep_at {
            known.by_key.retain(|_, full| full.refused_until > received);
            known.sweep_at = (known.by_key.len() * 2).clamp(SWEEP_FROM, MAX_KEYS);
        }
        if known.by_key.len() < MAX_KEYS || known.by_key.contains_key(&key) {
            let refused_until = sent + standing.resets_in;
            let ended_by = received + standing.resets_in + ROUNDING;
            known.by_key.insert(key, ExhaustedWindow { limit, refused_until, ended_by });
        }
    }

    fn lock(&self) -> MutexGuard<'_, ExhaustedWindows<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn a_full_window_is_refused_until_it_may_have_ended() {
        let (keys, sent) = (ExhaustedKeys::default(), Instant::now());
        keys.mark_exhausted(1, 5, &full(1999 * MS), (sent, sent + 20 * MS));

        let refused = keys.check(1, 5, sent + 1000 * MS).expect("a refusal");
        assert_eq!((refused.admitted, refused.remaining), (false, 0));
        // The window ends 2,020 ms after the start at the latest; two seconds from here do.
        assert_eq!(refused.retry_after_seconds(), 2);
        assert!(keys.check(1, 5, sent + 1998 * MS).is_some());
        assert!(keys.check(1, 5, sent + 1999 * MS).is_none());
        assert!(keys.lock().by_key.is_empty());
    }

    #[test]
    fn another_limit_is_asked_about_again() {
        let (keys, now) = (ExhaustedKeys::default(), Instant::now());
        for other in [4, 6] {
            keys.mark_exhausted(1, 5, &full(1000 * MS), (now, now));
            assert!(keys.check(1, 5, now).is_some());
            assert!(keys.check(1, other, now).is_none());
            assert!(keys.check(1, 5, now).is_none(), "it was forgotten");
        }
    }

    #[test]
    fn only_full_windows_are_remembered_and_a_bounded_number_of_them() {
        let (keys, now) = (ExhaustedKeys::default(), Instant::now());
        keys.mark_exhausted(0, 6, &full(1000 * MS), (now, now));
        assert!(keys.check(0, 6, now).is_none());
        for key in 0..MAX_KEYS + 10 {
            keys.mark_exhausted(key, 5, &full(1000 * MS), (now, now));
        }
        assert_eq!(keys.lock().by_key.len(), MAX_KEYS);
        assert!(keys.check(MAX_KEYS, 5, now).is_none());
        // Ended ones make room.
        keys.mark_exhausted(MAX_KEYS, 5, &full(1000 * MS), (now + 1000 * MS, now + 1000 * MS));
        assert_eq!(keys.lock().by_key.len(), 1);
    }
}
