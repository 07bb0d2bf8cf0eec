//! Numbers the times when the store was lost: a share is granted once for each.
//!
//! A store has parts that can be lost each on their own, as the slots of a cluster. A loss of one
//! lasts until what is asked there is answered again; answers from others do not end it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module. Changed by one task only.
#[derive(Debug, Default)]
pub(super) struct OutageTracker {
    /// Read for every batch; the lock is taken only while something is lost.
    any: AtomicBool,
    lasting: Mutex<HashMap<u16, u32>>,
    number: AtomicU32,
}

impl OutageTracker {
    /// The number of the loss of `part` that lasts, or begins.
    pub(super) fn begin(&self, part: u16) -> u32 {
        let mut lasting = self.lasting();
        self.any.store(true, Ordering::Relaxed);
        *lasting.entry(part).or_insert_with(|| self.number.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Whether there is anything to end.
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// What was asked of `part` has been answered.
    pub(super) fn end(&self, part: u16) {
        let mut lasting = self.lasting();
        lasting.remove(&part);
        self.any.store(!lasting.is_empty(), Ordering::Relaxed);
    }

    /// The newest one's.
    pub(super) fn newest(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    fn lasting(&self) -> MutexGuard<'_, HashMap<u16, u32>> {
        self.lasting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_of_a_part_lasts_until_that_part_answers() {
        let outages = OutageTracker::default();
        assert_eq!((outages.begin(7), outages.begin(7), outages.begin(8)), (1, 1, 2));
        outages.end(8);
        assert!(outages.any(), "7 is still lost");
        assert_eq!((outages.begin(7), outages.begin(8)), (1, 3));
        outages.end(7);
        outages.end(8);
        assert!(!outages.any());
        assert_eq!((outages.begin(7), outages.newest()), (4, 4));
    }
}
