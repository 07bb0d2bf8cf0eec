//! How far the database has come, and how far a standby has followed.
//!
//! A look at the primary is a milestone: a time, and all that could be seen at it. A standby that
//! has replayed what was written until then shows all of it, so what is read there counts as read
//! at the newest milestone that it is known to have reached. That is never too late a time, needs
//! no clock but the primary's, and stays right under any lag.

use std::collections::VecDeque;

use super::change_log::ReadStamp;
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
struct Checkpoint {
    at: Timestamp,
    snapshot: Snapshot,
    wal: u64,
    /// Which look at the primary found it; `None` for one at a standby, while that was away.
    look: Option<u64>,
}

/// The milestones of one history.
#[derive(Debug, Default)]
pub(super) struct ReplicationTracker {
    timeline: Option<u32>,
    milestones: VecDeque<Checkpoint>,
    /// How many there have been.
    passed: u64,
    /// How many looks at the primary have begun.
    begun: u64,
    /// How many histories have ended.
    ended: u64,
}

impl ReplicationTracker {
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
    pub(super) const fn begin_poll(&mut self) {
        self.begun += 1;
    }

    /// What the look that has begun found.
    pub(super) fn add(&mut self, position: &Position) {
        self.timeline = position.timeline.or(self.timeline);
        let Position { read_at: at, snapshot, wal, is_standby, .. } = position.clone();
        let look = (!is_standby).then_some(self.begun);
        self.push(Checkpoint { at, snapshot, wal, look });
    }

    /// A look, at the time `at` by the primary's clock, at the standby that is followed while the
    /// primary is away.
    pub(super) fn add_of_standby(&mut self, position: &Position, at: Timestamp) {
        let proven = self.newest_reached(position).map(|milestone| &milestone.snapshot);
        // The better of what it shows by itself and what it is known to have reached.
        let snapshot = proven.filter(|proven| !position.snapshot.sees_all_of(proven));
        let snapshot = snapshot.unwrap_or(&position.snapshot).clone();
        self.push(Checkpoint { at, snapshot, wal: position.wal, look: None });
    }

    fn push(&mut self, milestone: Checkpoint) {
        if self.milestones.len() == MILESTONES {
            self.milestones.pop_front();
        }
        self.milestones.push_back(milestone);
        self.passed += 1;
    }

    fn newest_reached(&self, position: &Position) -> Option<&Checkpoint> {
        self.milestones.iter().rev().find(|milestone| {
            position.wal >= milestone.wal || position.snapshot.sees_all_of(&milestone.snapshot)
        })
    }

    /// Whether a server has what the primary has lost: it was further than the primary was later.
    fn was_overtaken_by(&self, was: &LastPoll) -> LostData {
        let newest = self.milestones.back().filter(|_| was.passed < self.passed);
        match newest.map(|newest| (newest.look, was.wal > newest.wal)) {
            Some((Some(look), true)) if look > was.begun => LostData::Yes,
            Some((Some(_), true)) => LostData::Perhaps,
            _ => LostData::No,
        }
    }
}

/// Whether a primary has lost what a standby shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LostData {
    No,
    /// The looks at both overlapped: the primary's may have been the earlier.
    Perhaps,
    Yes,
}

/// Whether what a standby shows belongs to the present history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lineage {
    /// It has been looked at once: nothing speaks against it, and nothing was compared yet.
    Unknown,
    Following,
    /// It may show what the primary has lost. To be seen at the next look.
    Suspect,
    /// As [`Self::Doubted`], until it is seen to go on from here: what has been lost goes nowhere.
    Stalled(u64),
}

/// One standby, as its looks have found it.
#[derive(Debug)]
pub(super) struct StandbyTracker {
    trust: Lineage,
    was: Option<LastPoll>,
    ended: u64,
}

/// Where a standby was at its latest look.
#[derive(Debug)]
struct LastPoll {
    wal: u64,
    /// Milestones that had passed by its end.
    passed: u64,
    /// Looks at the primary that had begun by its end.
    begun: u64,
}

impl Default for StandbyTracker {
    fn default() -> Self {
        Self { trust: Lineage::Unknown, was: None, ended: 0 }
    }
}

impl StandbyTracker {
    /// Takes in a look, made after the latest milestone. Returns what reads from now on have seen
    /// at least; `None` where they can't be used.
    pub(super) fn polled(
        &mut self,
        position: &Position,
        course: &ReplicationTracker,
    ) -> Option<ReadStamp> {
        let overtaken = self.was.as_ref().map_or(LostData::No, |was| course.was_overtaken_by(was));
        if self.ended != course.ended {
            (self.ended, self.trust) = (course.ended, Lineage::Suspect);
        } else if overtaken == LostData::Yes {
            self.trust = Lineage::Suspect;
        }
        self.trust = match self.trust {
            // Promoted, or the primary itself. There is no going on to be waited for.
            _ if !position.is_standby => {
                let same = position.timeline.is_some() && position.timeline == course.timeline;
                if same { Lineage::Following } else { Lineage::Suspect }
            }
            Lineage::Unknown if self.was.is_none() => Lineage::Unknown,
            Lineage::Suspect => Lineage::Stalled(position.wal),
            Lineage::Stalled(wal) if position.wal <= wal => Lineage::Stalled(wal),
            _ => Lineage::Following,
        };
        let ReplicationTracker { passed, begun, .. } = *course;
        self.was = Some(LastPoll { wal: position.wal, passed, begun });
        if self.trust != Lineage::Following || overtaken == LostData::Perhaps {
            return None;
        }
        let reached = course.newest_reached(position)?;
        Some(ReadStamp::new(reached.at, Some(reached.snapshot.clone())))
    }
}

#[cfg(test)]
#[path = "replication_tests.rs"]
mod tests;
