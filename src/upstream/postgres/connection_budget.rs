//! Places: how many connections a replica uses at once.
//!
//! A server that is full makes us do with the connections we have: each one that it refuses takes
//! its place away, for somebody else's use, until [`ConnectionBudget::grow`] tries again. The last
//! place stays, so that there is always somebody who finds out that the server has room again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The right to use one connection, until it is dropped.
pub(super) type Place = OwnedSemaphorePermit;

/// See the module.
#[derive(Debug)]
pub(super) struct ConnectionBudget {
    free: Arc<Semaphore>,
    most: usize,
    withheld: AtomicUsize,
}

impl ConnectionBudget {
    /// `most` places, 1 at least.
    pub(super) fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), most, withheld: AtomicUsize::new(0) }
    }

    /// A place, once there is one; who came first is served first. `None` never comes: nobody
    /// closes it.
    pub(super) async fn take(&self) -> Option<Place> {
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// The server refused a connection for this place: it is taken away, or, where it is the last
    /// one, comes back as `Some`.
    pub(super) fn shrink(&self, place: Place) -> Option<Place> {
        let more = |withheld| Some(withheld + 1).filter(|&withheld| withheld < self.most);
        let taken = self.withheld.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        if taken.is_err() {
            return Some(place);
        }
        place.forget();
        None
    }

    /// One place that was withheld is there again.
    pub(super) fn grow(&self) {
        let less = |withheld: usize| withheld.checked_sub(1);
        if self.withheld.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok() {
            self.free.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn places_are_withheld_down_to_the_last_and_come_back_to_the_most() {
        let places = ConnectionBudget::new(3);
        let mut kept = Vec::new();
        for _ in 0..3 {
            kept.push(places.take().await.expect("a place"));
        }
        assert!(places.shrink(kept.pop().expect("a place")).is_none());
        assert!(places.shrink(kept.pop().expect("a place")).is_none());
        let last = places.shrink(kept.pop().expect("a place")).expect("the last one stays");
        drop(last);
        assert_eq!(places.free.available_permits(), 1);
        for expected in [2, 3, 3, 3] {
            places.grow();
            assert_eq!(places.free.available_permits(), expected);
        }
    }
}
