//! Numbers the outages of the store: a replica grants its local share once for each.
//!
//! Shards of the store, the slots of a cluster, fail independently of each other. An outage of a
//! shard lasts until that shard replies again; replies of other shards do not end it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::sync::lock;

/// Knows the outages that last. Changed by one task only.
#[derive(Debug, Default)]
pub(super) struct OutageTracker {
    /// Read for every batch; the lock is taken only during an outage.
    any: AtomicBool,
    lasting: Mutex<HashMap<u16, u32>>,
    number: AtomicU32,
}

impl OutageTracker {
    /// The number of the outage of `shard` that lasts, or else begins now. The first one is 1.
    pub(super) fn begin(&self, shard: u16) -> u32 {
        let mut lasting = lock(&self.lasting);
        self.any.store(true, Ordering::Relaxed);
        *lasting.entry(shard).or_insert_with(|| self.number.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Whether any outage lasts.
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Ends the outage of `shard`, if it has one.
    pub(super) fn end(&self, shard: u16) {
        let mut lasting = lock(&self.lasting);
        lasting.remove(&shard);
        self.any.store(!lasting.is_empty(), Ordering::Relaxed);
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
        assert!(outages.any(), "the outage of 7 lasts");
        assert_eq!((outages.begin(7), outages.begin(8)), (1, 3));
        outages.end(7);
        outages.end(8);
        assert!(!outages.any());
        assert_eq!((outages.begin(7), outages.newest()), (4, 4));
    }
}
