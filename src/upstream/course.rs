//! How far the database has come, and how far a standby has followed.
//!
//! A look at the primary is a milestone: a time, and all that could be seen at it. A standby that
//! has replayed what was written until then shows all of it, so what is read there counts as read
//! at the newest milestone that it is known to have reached. That is never too late a time, needs
//! no clock but the primary's, and stays right under any lag.

use std::collections::VecDeque;

use super::change_log::Seen;
use super::snapshot::Snapshot;
use crate::registry::Timestamp;

/// Milestones kept, one a second: a standby that lags by more is known to lag by that much.
const MILESTONES: usize = 900;

/// Where a server is in its database's history.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The server's time.
    pub read_at: Timestamp,
    /// What can be seen there; on a standby, what certainly can.
    pub snapshot: Snapshot,
    /// Whether it follows another server.
    pub is_standby: bool,
    /// Bytes of its write-ahead log up to here, all that is seen included: inserted, or, on a
    /// standby, replayed.
    pub wal: u64,
    /// Which of the database's histories it writes; a promotion begins a new one. `None` on a
    /// standby.
    pub timeline: Option<u32>,
}

#[derive(Debug, Clone)]
struct Milestone {
    at: Timestamp,
    snapshot: Snapshot,
    wal: u64,
    /// Which look at the primary found it; `None` for one at a standby, while that was away.
    look: Option<u64>,
}

/// The milestones of one history.
#[derive(Debug, Default)]
pub(super) struct Course {
    timeline: Option<u32>,
    milestones: VecDeque<Milestone>,
    /// How many there have been.
    passed: u64,
    /// How many looks at the primary have begun.
    begun: u64,
    /// How many histories have ended.
    ended: u64,
}

impl Course {
    /// Whether this primary writes another history than the one before it.
    pub(super) fn is_left_by(&self, position: &Position) -> bool {
        matches!((self.timeline, position.timeline), (Some(ours), Some(theirs)) if ours != theirs)
    }

    /// Another history begins: nothing is known of it yet.
    pub(super) fn begin_again(&mut self) {
        let Self { ended, passed, begun, .. } = *self;
        *self = Self { ended: ended + 1, passed, begun, ..Self::default() };
    }

    /// How many histories have ended.
    pub(super) const fn ended(&self) -> u64 {
        self.ended
    }

    /// A look at the primary begins.
    pub(super) const fn begin_look(&mut self) {
        self.begun += 1;
    }

    /// What the look that has begun found.
    pub(super) fn add(&mut self, position: &Position) {
        self.timeline = position.timeline.or(self.timeline);
        let Position { read_at: at, snapshot, wal, is_standby, .. } = position.clone();
        let look = (!is_standby).then_some(self.begun);
        self.push(Milestone { at, snapshot, wal, look });
    }

    /// A look, at the time `at` by the primary's clock, at the standby that is followed while the
    /// primary is away.
    pub(super) fn add_of_standby(&mut self, position: &Position, at: Timestamp) {
        let proven = self.newest_reached(position).map(|milestone| &milestone.snapshot);
        // The better of what it shows by itself and what it is known to have reached.
        let snapshot = proven.filter(|proven| !position.snapshot.sees_all_of(proven));
        let snapshot = snapshot.unwrap_or(&position.snapshot).clone();
        self.push(Milestone { at, snapshot, wal: position.wal, look: None });
    }

    fn push(&mut self, milestone: Milestone) {
        if self.milestones.len() == MILESTONES {
            self.milestones.pop_front();
        }
        self.milestones.push_back(milestone);
        self.passed += 1;
    }

    fn newest_reached(&self, position: &Position) -> Option<&Milestone> {
        self.milestones.iter().rev().find(|milestone| {
            position.wal >= milestone.wal || position.snapshot.sees_all_of(&milestone.snapshot)
        })
    }

    /// Whether a server has what the primary has lost: it was further than the primary was later.
    fn was_overtaken_by(&self, was: &Was) -> Overtaken {
        let newest = self.milestones.back().filter(|_| was.passed < self.passed);
        match newest.map(|newest| (newest.look, was.wal > newest.wal)) {
            Some((Some(look), true)) if look > was.begun => Overtaken::Yes,
            Some((Some(_), true)) => Overtaken::Perhaps,
            _ => Overtaken::No,
        }
    }
}

/// Whether a primary has lost what a standby shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overtaken {
    No,
    /// The looks at both overlapped: the primary's may have been the earlier.
    Perhaps,
    Yes,
}

/// Whether what a standby shows belongs to the present history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// It has been looked at once: nothing speaks against it, and nothing was compared yet.
    New,
    Follows,
    /// It may show what the primary has lost. To be seen at the next look.
    Doubted,
    /// As [`Self::Doubted`], until it is seen to go on from here: what has been lost goes nowhere.
    StoodAt(u64),
}

/// One standby, as its looks have found it.
#[derive(Debug)]
pub(super) struct Follower {
    trust: Trust,
    was: Option<Was>,
    ended: u64,
}

/// Where a standby was at its latest look.
#[derive(Debug)]
struct Was {
    wal: u64,
    /// Milestones that had passed by its end.
    passed: u64,
    /// Looks at the primary that had begun by its end.
    begun: u64,
}

impl Default for Follower {
    fn default() -> Self {
        Self { trust: Trust::New, was: None, ended: 0 }
    }
}

impl Follower {
    /// Takes in a look, made after the latest milestone. Returns what reads from now on have seen
    /// at least; `None` where they can't be used.
    pub(super) fn looked(&mut self, position: &Position, course: &Course) -> Option<Seen> {
        let overtaken = self.was.as_ref().map_or(Overtaken::No, |was| course.was_overtaken_by(was));
        if self.ended != course.ended {
            (self.ended, self.trust) = (course.ended, Trust::Doubted);
        } else if overtaken == Overtaken::Yes {
            self.trust = Trust::Doubted;
        }
        self.trust = match self.trust {
            // Promoted, or the primary itself. There is no going on to be waited for.
            _ if !position.is_standby => {
                let same = position.timeline.is_some() && position.timeline == course.timeline;
                if same { Trust::Follows } else { Trust::Doubted }
            }
            Trust::New if self.was.is_none() => Trust::New,
            Trust::Doubted => Trust::StoodAt(position.wal),
            Trust::StoodAt(wal) if position.wal <= wal => Trust::StoodAt(wal),
            _ => Trust::Follows,
        };
        let Course { passed, begun, .. } = *course;
        self.was = Some(Was { wal: position.wal, passed, begun });
        if self.trust != Trust::Follows || overtaken == Overtaken::Perhaps {
            return None;
        }
        let reached = course.newest_reached(position)?;
        Some(Seen::new(reached.at, Some(reached.snapshot.clone())))
    }
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
