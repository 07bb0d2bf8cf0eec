//! Tracks the history of the database and the polls that its standbys have replayed.
//!
//! Each poll is a checkpoint. A standby that has replayed the write-ahead log up to a checkpoint
//! shows all of it, so a read from a standby has the stamp of the newest checkpoint that it has
//! provably replayed. The stamp is never too late, and is correct under any lag.

use std::collections::VecDeque;

use super::history::{History, Position};
use super::read::ReadStamp;

/// Number of checkpoints kept, one a second. A larger lag is reported as this.
const MAX_CHECKPOINTS: usize = 900;

/// The checkpoints of the present history.
#[derive(Debug, Default)]
pub(super) struct ReplicationTracker {
    /// The present history; `None` until the first poll.
    pub(super) history: Option<History>,
    /// Its number among those of this replica.
    pub(super) number: u64,
    checkpoints: VecDeque<Checkpoint>,
}

#[derive(Debug)]
struct Checkpoint {
    wal: u64,
    stamp: ReadStamp,
}

impl ReplicationTracker {
    /// Begins a history, without checkpoints. Returns its number.
    pub(super) fn begin_history(&mut self, history: History) -> u64 {
        let number = self.number + 1;
        *self = Self { history: Some(history), number, checkpoints: VecDeque::new() };
        number
    }

    /// Adds a checkpoint: what is in the write-ahead log before `wal` is visible to a read with this
    /// stamp.
    pub(super) fn add(&mut self, wal: u64, stamp: ReadStamp) {
        if self.checkpoints.len() == MAX_CHECKPOINTS {
            self.checkpoints.pop_front();
        }
        self.checkpoints.push_back(Checkpoint { wal, stamp });
    }

    /// Bytes of the write-ahead log at the newest checkpoint.
    pub(super) fn wal(&self) -> Option<u64> {
        self.checkpoints.back().map(|newest| newest.wal)
    }

    /// The stamp of the newest checkpoint that a server at this position shows.
    pub(super) fn newest_reached(&self, position: &Position) -> Option<&ReadStamp> {
        let is_reached = |Checkpoint { wal, stamp }: &&Checkpoint| {
            let sees = |snapshot| position.snapshot.sees_all_of(snapshot);
            position.wal.is_some_and(|reached| reached >= *wal)
                || stamp.snapshot.as_ref().is_some_and(sees)
        };
        self.checkpoints.iter().rev().find(is_reached).map(|checkpoint| &checkpoint.stamp)
    }
}

#[cfg(test)]
#[path = "replication_tests.rs"]
mod tests;
