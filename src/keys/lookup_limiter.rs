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

/// The maximal number of lookups that find no key, in a burst and per second on average.
const UNKNOWN_BURST: u32 = 100;
const UNKNOWN_PER_SECOND: u32 = 50;

/// The maximal number of concurrent lookups. It is less than a burst, so that lookups that find
/// keys never exhaust the tokens.
const MAX_CONCURRENT: usize = 32;

/// The maximal time that a lookup waits to begin.
const MAX_WAIT: Duration = Duration::from_millis(300);

/// Grants permits for lookups. Cheap to clone.
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
    pub(super) async fn acquire(&self) -> Option<LookupPermit> {
        // Checked first, so that a lookup that would be refused takes no place from others.
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
    /// Records that the key exists: the lookup does not count as one of an unknown key.
    pub(super) fn mark_found(self) {
        self.unknown.refund();
    }
}
