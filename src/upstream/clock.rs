//! Elapsed time, and the clock of the database, so that replicas with different clocks agree on ages.

use std::ops::Sub;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::registry::Timestamp;

/// Times of the database further in the future than this come from before a backward step of its
/// clock, or from another clock.
const MAX_AHEAD_US: i64 = 1_000_000;

#[cfg(debug_assertions)]
thread_local! {
    /// By how many seconds tests let the clock of this thread run ahead.
    static SKIPPED_S: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
}

/// A moment by `CLOCK_BOOTTIME`: no step of a clock moves it, and it runs on while the machine is
/// suspended. In microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootInstant(i64);

impl BootInstant {
    /// Before every other moment.
    pub const MIN: Self = Self(i64::MIN);

    /// The current moment.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        #[cfg(debug_assertions)]
        let now = rustix::time::Timespec { tv_sec: now.tv_sec + SKIPPED_S.get(), ..now };
        Self(now.tv_sec * 1_000_000 + now.tv_nsec / 1_000)
    }

    /// Lets the clock of this thread run ahead by whole seconds, for tests.
    #[cfg(debug_assertions)]
    pub fn skip(duration: Duration) {
        SKIPPED_S.set(SKIPPED_S.get() + duration.as_secs().cast_signed());
    }

    /// Time since `earlier`; zero if that is later.
    pub const fn since(self, earlier: Self) -> Duration {
        let elapsed = self.0.saturating_sub(earlier.0);
        Duration::from_micros(if elapsed > 0 { elapsed.unsigned_abs() } else { 0 })
    }

    /// Time since this moment.
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    pub(super) const fn to_micros(self) -> i64 {
        self.0
    }

    pub(super) const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }
}

impl Sub<Duration> for BootInstant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// Estimates the database's time from its polls; until the first one, this machine's time.
#[derive(Debug)]
pub(super) struct DatabaseClock {
    /// The database's time less the time since boot, in microseconds.
    offset: AtomicI64,
    /// The latest time before the last backward step of the database's clock; the maximum until the
    /// clock is set.
    stepped_from: AtomicI64,
}

impl Default for DatabaseClock {
    fn default() -> Self {
        let offset = Timestamp::now().as_microsecond() - BootInstant::now().0;
        Self { offset: AtomicI64::new(offset), stepped_from: AtomicI64::new(i64::MAX) }
    }
}

impl DatabaseClock {
    /// The database's time at the moment `at`.
    pub(super) fn at(&self, at: BootInstant) -> Timestamp {
        let micros = at.0.saturating_add(self.offset.load(Ordering::Relaxed));
        Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Sets the clock: the database's time was `time` at some moment between `sent` and now.
    pub(super) fn set(&self, time: Timestamp, sent: BootInstant) {
        let middle = sent.0.midpoint(BootInstant::now().0);
        let offset = time.as_microsecond().saturating_sub(middle);
        let before = self.offset.swap(offset, Ordering::Relaxed);
        let first = self.stepped_from.compare_exchange(
            i64::MAX,
            i64::MIN,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if first.is_err() && offset < before - MAX_AHEAD_US {
            self.stepped_from.fetch_max(middle.saturating_add(before), Ordering::Relaxed);
        }
    }

    /// The moment that the database's clock showed as `time`; `None` if that is in the future.
    pub(super) fn moment_of(&self, time: Timestamp) -> Option<BootInstant> {
        let (now, offset) = (BootInstant::now(), self.offset.load(Ordering::Relaxed));
        let moment = time.as_microsecond().saturating_sub(offset);
        (moment <= now.0.saturating_add(MAX_AHEAD_US)).then_some(BootInstant(moment).min(now))
    }

    /// Whether the database's clock showed `time` more than once, before a backward step and after it.
    pub(super) fn is_ambiguous(&self, time: Timestamp) -> bool {
        time.as_microsecond() <= self.stepped_from.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backward_step_makes_the_times_before_it_ambiguous_and_later_ones_future() {
        let (clock, start) = (DatabaseClock::default(), BootInstant::now());
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).expect("a time");
        clock.set(at(0), start);
        assert!(clock.moment_of(at(-60)).is_some() && !clock.is_ambiguous(at(-60)));
        assert!(clock.moment_of(at(5)).is_none());
        clock.set(at(-30), start);
        assert!(clock.moment_of(at(-20)).is_none());
        assert!(clock.is_ambiguous(at(-1)) && !clock.is_ambiguous(at(1)));
        assert!(clock.moment_of(at(-30)).expect("a moment").elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_step_of_this_machine_s_clock_moves_no_time_of_the_database() {
        let clock = DatabaseClock::default();
        let ahead = Timestamp::now() + jiff::SignedDuration::from_hours(3);
        let sent = BootInstant::now();
        clock.set(ahead, sent);
        let error = clock.at(sent).duration_since(ahead);
        assert!(error.abs() < jiff::SignedDuration::from_secs(1), "{error:?}");
    }
}
