//! Numbers the outages of the store. A replica grants its local share once for each outage.
//!
//! Shards of the store, the slots of a cluster, fail independently of each other. An outage of a
//! shard lasts until that shard replies again; replies of other shards do not end it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::sync::lock;

/// The current outages, by shard. Only one task changes them.
#[derive(Debug, Default)]
pub(super) struct OutageTracker {
    /// Read for every batch; the lock is taken only during an outage.
    has_outage: AtomicBool,
    current: Mutex<HashMap<u16, u32>>,
    number: AtomicU32,
}

impl OutageTracker {
    /// The number of the current outage of `shard`, which begins now if there is none. The first
    /// outage is number 1.
    pub(super) fn begin(&self, shard: u16) -> u32 {
        let mut current = lock(&self.current);
        self.has_outage.store(true, Ordering::Relaxed);
        *current.entry(shard).or_insert_with(|| self.number.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Whether there is an outage of any shard.
    pub(super) fn has_outage(&self) -> bool {
        self.has_outage.load(Ordering::Relaxed)
    }

    /// Ends the outage of `shard`, if it has one.
    pub(super) fn end(&self, shard: u16) {
        let mut current = lock(&self.current);
        current.remove(&shard);
        self.has_outage.store(!current.is_empty(), Ordering::Relaxed);
    }

    /// The number of the newest outage; 0 before the first.
    pub(super) fn newest(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_of_a_shard_lasts_until_that_shard_replies() {
        let outages = OutageTracker::default();
        assert_eq!((outages.begin(7), outages.begin(7), outages.begin(8)), (1, 1, 2));
        outages.end(8);
        assert!(outages.has_outage(), "the outage of 7 lasts");
        assert_eq!((outages.begin(7), outages.begin(8)), (1, 3));
        outages.end(7);
        outages.end(8);
        assert!(!outages.has_outage());
        assert_eq!((outages.begin(7), outages.newest()), (4, 4));
    }
}
