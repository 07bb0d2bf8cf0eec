//! How often keys never seen are looked up.
//!
//! What is bounded is what strangers can cause: a look-up that finds a key gives back what it took,
//! so a replica that has just started gets to know its callers as fast as the database answers, and
//! made-up keys stay at so many a second. How many look-ups are under way at once is bounded for
//! both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::sync::TokenBucket;

/// Look-ups that find nothing: so many in a burst, and so many a second on average.
const UNKNOWN_BURST: u32 = 100;
const UNKNOWN_PER_SECOND: u32 = 50;

/// Look-ups under way at once. Fewer than a burst, so that known callers alone never use it up.
const AT_ONCE: usize = 32;

/// How long one waits for its turn.
const WAIT: Duration = Duration::from_millis(300);

/// Lets look-ups begin. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct LookupLimiter {
    places: Arc<Semaphore>,
    budget: Arc<TokenBucket>,
}

/// Leave to look a key up; it ends when this is dropped.
pub(super) struct LookupPermit {
    budget: Arc<TokenBucket>,
    _place: OwnedSemaphorePermit,
}

impl LookupLimiter {
    pub(super) fn new() -> Self {
        let budget = TokenBucket::new(UNKNOWN_BURST, UNKNOWN_PER_SECOND, Instant::now());
        Self { places: Arc::new(Semaphore::new(AT_ONCE)), budget: Arc::new(budget) }
    }

    /// Leave for one look-up, or none: strangers have used up their share, or too many wait.
    pub(super) async fn begin(&self) -> Option<LookupPermit> {
        // Those who would get nothing do not stand in the way of others.
        if self.budget.is_empty(Instant::now()) {
            return None;
        }
        let place = timeout(WAIT, Arc::clone(&self.places).acquire_owned()).await.ok()?.ok()?;
        let granted = self.budget.try_take(Instant::now());
        granted.then(|| LookupPermit { budget: Arc::clone(&self.budget), _place: place })
    }
}

impl LookupPermit {
    /// The key exists: this look-up costs strangers' share nothing.
    pub(super) fn found(self) {
        self.budget.refund();
    }
}
