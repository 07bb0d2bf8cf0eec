//! Checks what must hold in every world.

use std::ops::Add;
use std::time::{Duration, Instant};

use super::redis::{Key, OutageRecord, WindowRecord};
use super::world::{CallEnd, CallRecord, WorldHistory};
use crate::limit::window::{WINDOW, local_share};

/// How often each kind of event happened, to know that the worlds tested it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Coverage {
    pub(super) windows: u64,
    /// Windows without any fault, in which exactly the limit was admitted.
    pub(super) exact_windows: u64,
    /// Windows in which outages let more requests pass than the limit.
    pub(super) beyond_the_limit: u64,
    pub(super) outages: u64,
    pub(super) emptied: u64,
    pub(super) refused: u64,
    pub(super) abandoned: u64,
}

impl Add for Coverage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            windows: self.windows + other.windows,
            exact_windows: self.exact_windows + other.exact_windows,
            beyond_the_limit: self.beyond_the_limit + other.beyond_the_limit,
            outages: self.outages + other.outages,
            emptied: self.emptied + other.emptied,
            refused: self.refused + other.refused,
            abandoned: self.abandoned + other.abandoned,
        }
    }
}

/// A command arrives less than this time after it was sent.
const STRAY: Duration = Duration::from_millis(200);

/// A span of time in the history of one key.
#[derive(Clone, Copy)]
struct Span<'a> {
    history: &'a WorldHistory,
    key: Key,
    from: Instant,
    to: Instant,
}

impl<'a> Span<'a> {
    fn minute(history: &'a WorldHistory, key: Key, from: Instant) -> Self {
        Self { history, key, from, to: from + WINDOW }
    }

    /// Calls that may overlap the span.
    fn touching(&self) -> impl Iterator<Item = &CallRecord> {
        let calls = self.history.calls.iter().filter(|call| call.key == self.key);
        calls.filter(|call| call.ended >= self.from && call.began <= self.to)
    }

    /// Calls that lie completely in the span.
    fn inside(&self) -> impl Iterator<Item = &CallRecord> {
        self.touching().filter(|call| call.began >= self.from && call.ended < self.to)
    }

    fn outages(&self) -> impl Iterator<Item = &OutageRecord> {
        let outages = self.history.outages.iter();
        outages.filter(|l| l.began <= self.to && l.ended.is_none_or(|end| end >= self.from))
    }

    fn emptied(&self) -> u32 {
        let times = self.history.emptied.iter();
        times.filter(|&&at| at >= self.from && at <= self.to).count() as u32
    }

    fn largest_limit(&self) -> u32 {
        self.touching().map(|call| call.limit).max().unwrap_or(0)
    }

    fn admitted_inside(&self) -> u32 {
        self.inside().filter(|call| call.end == CallEnd::Admitted).count() as u32
    }
}

/// Checks one world.
pub(super) fn check(history: &WorldHistory) -> Coverage {
    let ended = |end| history.calls.iter().filter(|call| call.end == end).count() as u64;
    let mut seen = Coverage {
        windows: history.windows.len() as u64,
        outages: history.outages.len() as u64,
        emptied: history.emptied.len() as u64,
        refused: ended(CallEnd::Refused),
        abandoned: ended(CallEnd::Abandoned),
        ..Coverage::default()
    };
    for window in &history.windows {
        let span = Span::minute(history, window.key, window.opened);
        seen.beyond_the_limit += u64::from(check_bound(&span));
        seen.exact_windows += u64::from(check_exactness(&span, window));
    }
    for call in history.calls.iter().step_by(8) {
        check_any(&Span::minute(history, call.key, call.began));
    }
    seen
}

/// A window admits up to the largest limit, the same again for each loss of the data, and one share
/// for each outage of a replica. An outage that began before the window adds two shares, since two
/// of the replica's own windows may overlap this one, but never more than all replicas' shares.
/// Returns whether more than the limit was admitted.
fn check_bound(span: &Span<'_>) -> bool {
    let (admitted, limit) = (span.admitted_inside(), span.largest_limit());
    let share = local_share(limit, span.history.replicas);
    let overlapping = |outage: &OutageRecord| if outage.began >= span.from { 1 } else { 2 };
    let shares = |outage: &OutageRecord| share * span.history.replicas.min(overlapping(outage));
    let bound = limit * (1 + span.emptied()) + span.outages().map(shares).sum::<u32>();
    assert!(admitted <= bound, "{admitted} passed in a window, {bound} may");
    admitted > limit
}

/// Checks any span of a window's length, which two windows may overlap.
fn check_any(span: &Span<'_>) {
    let (admitted, limit) = (span.admitted_inside(), span.largest_limit());
    let share = local_share(limit, span.history.replicas);
    let outages = span.outages().count() as u32;
    let bound = limit * (2 + span.emptied()) + 2 * share * outages;
    assert!(admitted <= bound, "{admitted} passed in a minute, {bound} may");
}

/// Without any fault, every granted request reached its caller, and none was refused before the
/// limit was reached. Returns whether there was no fault and the limit was reached.
fn check_exactness(span: &Span<'_>, window: &WindowRecord) -> bool {
    let limit = span.largest_limit();
    // A command whose caller stopped waiting may have arrived in this window, and a replica keeps
    // refusing in a window that it knew to be exhausted even if Redis has lost it.
    let around = Span { from: span.from - STRAY, to: span.to + STRAY, ..*span };
    let before = Span { from: span.from - WINDOW, ..*span };
    let quiet = around.outages().next().is_none()
        && around.touching().all(|call| call.end != CallEnd::Abandoned);
    let steady = span.touching().all(|call| call.limit == limit);
    if !(quiet && steady && before.emptied() == 0) {
        return false;
    }
    let admitted = span.touching().filter(|call| call.end == CallEnd::Admitted).count() as u32;
    assert!(admitted >= window.granted, "{admitted} heard of {} grants", window.granted);
    let refused = span.inside().any(|call| call.end == CallEnd::Refused);
    assert!(!refused || window.granted == limit, "refused after {} of {limit}", window.granted);
    refused
}
