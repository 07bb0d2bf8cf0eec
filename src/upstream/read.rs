//! The result of a read, with its stamp.

use std::sync::atomic::AtomicU64;

use super::snapshot::Snapshot;
use crate::registry::Timestamp;

/// The result of a read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read<T> {
    /// The value.
    pub value: T,
    /// The time of the read, and the state of the database that it saw.
    pub seen: ReadStamp,
}

/// The time of a read, and the state of the database that it saw.
#[derive(Debug)]
pub struct ReadStamp {
    /// The upstream's time of the read.
    pub read_at: Timestamp,
    /// Its snapshot; `None` if the upstream has none.
    pub snapshot: Option<Snapshot>,
    /// The version of the change log for which this was last found current.
    pub(super) verified: AtomicU64,
}

impl ReadStamp {
    /// The stamp of a read that was just made.
    pub fn new(read_at: Timestamp, snapshot: Option<Snapshot>) -> Self {
        Self { read_at, snapshot, verified: AtomicU64::new(0) }
    }

    /// The earlier of two stamps: the stamp of a result that is made of both reads.
    pub fn earlier<'a>(&'a self, other: &'a Self) -> &'a Self {
        if other.read_at < self.read_at { other } else { self }
    }
}

impl Clone for ReadStamp {
    fn clone(&self) -> Self {
        Self::new(self.read_at, self.snapshot.clone())
    }
}

impl PartialEq for ReadStamp {
    fn eq(&self, other: &Self) -> bool {
        self.read_at == other.read_at && self.snapshot == other.snapshot
    }
}
