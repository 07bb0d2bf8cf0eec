//! Tracks the replication position of the primary and of its standbys.
//!
//! Each poll of the primary is a checkpoint: a time, and the snapshot at that time. A standby that
//! has replayed the log up to a checkpoint shows all of it, so a read from a standby is stamped with
//! the newest checkpoint that it has provably replayed. The stamp is never too late, needs no clock
//! but the primary's, and is correct under any lag.

use std::collections::VecDeque;

use super::read::ReadStamp;
use super::snapshot::Snapshot;
use crate::registry::Timestamp;

/// Number of checkpoints kept, one a second. A larger lag is reported as this.
const MAX_CHECKPOINTS: usize = 900;

/// The replication position of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The server's time.
    pub read_at: Timestamp,
    /// Its snapshot; on a standby, the part that is reliable.
    pub snapshot: Snapshot,
    /// Whether it is a standby.
    pub is_standby: bool,
    /// Bytes of its write-ahead log, inserted or, on a standby, replayed. They include all that the
    /// snapshot sees.
    pub wal: u64,
    /// The timeline that it writes; each promotion begins a new one. `None` on a standby.
    pub timeline: Option<u32>,
}

#[derive(Debug, Clone)]
struct Checkpoint {
    at: Timestamp,
    snapshot: Snapshot,
    wal: u64,
    /// The number of the poll of the primary; `None` for a poll of a standby.
    poll: Option<u64>,
}

/// The checkpoints of one timeline.
#[derive(Debug, Default)]
pub(super) struct ReplicationTracker {
    timeline: Option<u32>,
    checkpoints: VecDeque<Checkpoint>,
    /// Number of checkpoints so far.
    passed: u64,
    /// Number of polls of the primary that have begun.
    begun: u64,
    /// Number of timelines that have ended.
    ended: u64,
}

impl ReplicationTracker {
    /// Whether the primary writes another timeline than before.
    pub(super) fn is_other_timeline(&self, position: &Position) -> bool {
        matches!((self.timeline, position.timeline), (Some(ours), Some(theirs)) if ours != theirs)
    }

    /// Begins a new timeline, without checkpoints.
    pub(super) fn begin_timeline(&mut self) {
        let Self { ended, passed, begun, .. } = *self;
        *self = Self { ended: ended + 1, passed, begun, ..Self::default() };
    }

    /// Number of timelines that have ended.
    pub(super) const fn ended(&self) -> u64 {
        self.ended
    }

    /// Notes that a poll of the primary begins.
    pub(super) const fn begin_poll(&mut self) {
        self.begun += 1;
    }

    /// Adds the result of the poll that has begun.
    pub(super) fn add(&mut self, position: &Position) {
        self.timeline = position.timeline.or(self.timeline);
        let Position { read_at: at, snapshot, wal, is_standby, .. } = position.clone();
        let poll = (!is_standby).then_some(self.begun);
        self.push(Checkpoint { at, snapshot, wal, poll });
    }

    /// Adds a poll, at the time `at` by the primary's clock, of the standby that is polled while the
    /// primary is unavailable.
    pub(super) fn add_of_standby(&mut self, position: &Position, at: Timestamp) {
        let proven = self.newest_reached(position).map(|checkpoint| &checkpoint.snapshot);
        // Its own snapshot, or the one of the newest checkpoint that it has reached if that sees more.
        let snapshot = proven.filter(|proven| !position.snapshot.sees_all_of(proven));
        let snapshot = snapshot.unwrap_or(&position.snapshot).clone();
        self.push(Checkpoint { at, snapshot, wal: position.wal, poll: None });
    }

    fn push(&mut self, checkpoint: Checkpoint) {
        if self.checkpoints.len() == MAX_CHECKPOINTS {
            self.checkpoints.pop_front();
        }
        self.checkpoints.push_back(checkpoint);
        self.passed += 1;
    }

    fn newest_reached(&self, position: &Position) -> Option<&Checkpoint> {
        self.checkpoints.iter().rev().find(|checkpoint| {
            position.wal >= checkpoint.wal || position.snapshot.sees_all_of(&checkpoint.snapshot)
        })
    }

    /// Whether the primary has lost data that a standby has: the standby was further than the
    /// primary was later.
    fn lost_data_of(&self, last: &LastPoll) -> LostData {
        let newest = self.checkpoints.back().filter(|_| last.passed < self.passed);
        match newest.map(|newest| (newest.poll, last.wal > newest.wal)) {
            Some((Some(poll), true)) if poll > last.begun => LostData::Yes,
            Some((Some(_), true)) => LostData::Perhaps,
            _ => LostData::No,
        }
    }
}

/// Whether a primary has lost data that a standby has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LostData {
    No,
    /// The polls of both overlapped: the primary's may have been the earlier.
    Perhaps,
    Yes,
}

/// Whether a standby belongs to the current timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lineage {
    /// It has been polled once, so there was nothing to compare yet.
    Unknown,
    Following,
    /// It may have data that the primary has lost. The next poll decides.
    Suspect,
    /// As [`Self::Suspect`], until it advances beyond this position: a lost timeline does not.
    Stalled(u64),
}

/// The state of one standby, by its polls.
#[derive(Debug)]
pub(super) struct StandbyTracker {
    lineage: Lineage,
    last: Option<LastPoll>,
    ended: u64,
}

/// The latest poll of a standby.
#[derive(Debug)]
struct LastPoll {
    wal: u64,
    /// Number of checkpoints by its end.
    passed: u64,
    /// Number of polls of the primary that had begun by its end.
    begun: u64,
}

impl Default for StandbyTracker {
    fn default() -> Self {
        Self { lineage: Lineage::Unknown, last: None, ended: 0 }
    }
}

impl StandbyTracker {
    /// Applies a poll that was made after the latest checkpoint. Returns the stamp of reads from now
    /// on; `None` if they must not be used.
    pub(super) fn polled(
        &mut self,
        position: &Position,
        tracker: &ReplicationTracker,
    ) -> Option<ReadStamp> {
        let lost_data = self.last.as_ref().map_or(LostData::No, |last| tracker.lost_data_of(last));
        if self.ended != tracker.ended {
            (self.ended, self.lineage) = (tracker.ended, Lineage::Suspect);
        } else if lost_data == LostData::Yes {
            self.lineage = Lineage::Suspect;
        }
        self.lineage = match self.lineage {
            // It was promoted, or is the primary itself: its timeline decides.
            _ if !position.is_standby => {
                let same = position.timeline.is_some() && position.timeline == tracker.timeline;
                if same { Lineage::Following } else { Lineage::Suspect }
            }
            Lineage::Unknown if self.last.is_none() => Lineage::Unknown,
            Lineage::Suspect => Lineage::Stalled(position.wal),
            Lineage::Stalled(wal) if position.wal <= wal => Lineage::Stalled(wal),
            _ => Lineage::Following,
        };
        let ReplicationTracker { passed, begun, .. } = *tracker;
        self.last = Some(LastPoll { wal: position.wal, passed, begun });
        if self.lineage != Lineage::Following || lost_data == LostData::Perhaps {
            return None;
        }
        let reached = tracker.newest_reached(position)?;
        Some(ReadStamp::new(reached.at, Some(reached.snapshot.clone())))
    }
}

#[cfg(test)]
#[path = "replication_tests.rs"]
mod tests;
