//! Limits the lookups of unknown keys.
//!
//! The limit is for lookups that find no key: a lookup that finds one returns its token. So a
//! replica that has just started learns its callers' keys as fast as the database replies, while
//! made-up keys stay at a fixed rate. The number of concurrent lookups is bounded for both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::sync::TokenBucket;

/// Lookups that find no key, in a burst and a second on average.
const UNKNOWN_BURST: u32 = 100;
const UNKNOWN_PER_SECOND: u32 = 50;

/// Concurrent lookups. Fewer than a burst, so that lookups that find keys never exhaust it.
const MAX_CONCURRENT: usize = 32;

/// How long a lookup waits to begin.
const MAX_WAIT: Duration = Duration::from_millis(300);

/// Permits lookups. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct LookupLimiter {
    concurrent: Arc<Semaphore>,
    unknown: Arc<TokenBucket>,
}

/// The permit for one lookup, which ends when this is dropped.
pub(super) struct LookupPermit {
    unknown: Arc<TokenBucket>,
    _concurrent: OwnedSemaphorePermit,
}

impl LookupLimiter {
    pub(super) fn new() -> Self {
        let unknown = TokenBucket::new(UNKNOWN_BURST, UNKNOWN_PER_SECOND, Instant::now());
        Self { concurrent: Arc::new(Semaphore::new(MAX_CONCURRENT)), unknown: Arc::new(unknown) }
    }

    /// A permit for one lookup; `None` if too many lookups found no key, or too many are under way.
    pub(super) async fn begin(&self) -> Option<LookupPermit> {
        // Checked first, so that lookups that would be refused do not wait in the way of others.
        if self.unknown.is_empty(Instant::now()) {
            return None;
        }
        let concurrent =
            timeout(MAX_WAIT, Arc::clone(&self.concurrent).acquire_owned()).await.ok()?.ok()?;
        let granted = self.unknown.try_take(Instant::now());
        granted
            .then(|| LookupPermit { unknown: Arc::clone(&self.unknown), _concurrent: concurrent })
    }
}

impl LookupPermit {
    /// The key exists, so the lookup does not count as one of an unknown key.
    pub(super) fn found(self) {
        self.unknown.refund();
    }
}
