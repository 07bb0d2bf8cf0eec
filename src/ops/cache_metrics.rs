//! The counters of the caches and of the lookup of API keys. [`super::catalog`] documents each.

use metrics::{Counter, counter};

/// An event of the read path that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheEvent {
    /// A read of the upstream succeeded.
    Loaded,
    /// A read of the upstream failed.
    LoadFailed,
    /// A background refresh of a stale entry began.
    Refresh,
    /// A request waited for the read of another replica.
    Waited,
    /// A cached entry was outdated by a known change.
    NotCurrent,
    /// An entry in Redis could not be decoded.
    SharedUndecodable,
    /// An entry was too large for the shared cache.
    SharedTooLarge,
    /// An entry was not written to Redis, because Redis is nearly full.
    SharedNoRoom,
    /// A write to Redis failed.
    SharedWriteFailed,
    /// The lookup of an API key succeeded.
    KeyLookedUp,
    /// The lookup of an API key failed.
    KeyLookUpFailed,
    /// The lookup of an API key found none.
    KeyUnknown,
    /// The lookup of an unknown API key was rejected, because there were too many.
    KeyLookUpRefused,
}

/// The counter of each event, in the order of [`CacheEvent`]: its name, and the value of its label
/// `result` if it has one.
const COUNTERS: [(&str, Option<&str>); 13] = [
    ("gene_registry_loads_total", Some("ok")),
    ("gene_registry_loads_total", Some("failed")),
    ("gene_registry_refreshes_total", None),
    ("gene_registry_waits_for_other_replica_total", None),
    ("gene_registry_not_current_total", None),
    ("gene_registry_shared_undecodable_total", None),
    ("gene_registry_shared_too_large_total", None),
    ("gene_registry_shared_no_room_total", None),
    ("gene_registry_shared_write_failures_total", None),
    ("gene_registry_key_lookups_total", Some("ok")),
    ("gene_registry_key_lookups_total", Some("failed")),
    ("gene_registry_unknown_keys_total", None),
    ("gene_registry_key_lookups_refused_total", None),
];

/// One counter for each event, registered at the start, so that it is 0 before the first event.
#[derive(Debug)]
pub(super) struct CacheCounters([Counter; COUNTERS.len()]);

impl Default for CacheCounters {
    fn default() -> Self {
        Self(COUNTERS.map(|(name, result)| match result {
            Some(result) => counter!(name, "result" => result),
            None => counter!(name),
        }))
    }
}

impl CacheCounters {
    pub(super) fn count(&self, event: CacheEvent) {
        self.0[event as usize].increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_counters_are_in_the_same_order() {
        let name = |event: CacheEvent| COUNTERS[event as usize];
        assert_eq!(name(CacheEvent::LoadFailed), ("gene_registry_loads_total", Some("failed")));
        assert_eq!(name(CacheEvent::Waited).0, "gene_registry_waits_for_other_replica_total");
        assert_eq!(name(CacheEvent::NotCurrent).0, "gene_registry_not_current_total");
        assert_eq!(name(CacheEvent::SharedTooLarge).0, "gene_registry_shared_too_large_total");
        assert_eq!(name(CacheEvent::KeyLookedUp), ("gene_registry_key_lookups_total", Some("ok")));
        assert_eq!(name(CacheEvent::KeyUnknown).0, "gene_registry_unknown_keys_total");
        assert_eq!(CacheEvent::KeyLookUpRefused as usize, COUNTERS.len() - 1);
    }
}
