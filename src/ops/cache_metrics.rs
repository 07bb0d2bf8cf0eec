//! The counters of the caches and of the lookup of API keys. [`super::catalog`] documents each.

use metrics::{Counter, Key, Recorder};

use super::recorder::{METADATA, labelled};

/// An event of the read path that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheEvent {
    /// A read of the upstream ended.
    Load {
        /// Whether it failed.
        failed: bool,
    },
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
    /// A write to Redis failed.
    SharedWriteFailed,
    /// The lookup of an API key ended.
    KeyLookUp {
        /// Whether it failed.
        failed: bool,
    },
    /// The lookup of an unknown API key was rejected, because there were too many.
    KeyLookUpRefused,
}

impl CacheEvent {
    const ALL: [Self; 11] = [
        Self::Load { failed: false },
        Self::Load { failed: true },
        Self::Refresh,
        Self::Waited,
        Self::NotCurrent,
        Self::SharedUndecodable,
        Self::SharedTooLarge,
        Self::SharedWriteFailed,
        Self::KeyLookUp { failed: false },
        Self::KeyLookUp { failed: true },
        Self::KeyLookUpRefused,
    ];

    const fn index(self) -> usize {
        match self {
            Self::Load { failed } => failed as usize,
            Self::Refresh => 2,
            Self::Waited => 3,
            Self::NotCurrent => 4,
            Self::SharedUndecodable => 5,
            Self::SharedTooLarge => 6,
            Self::SharedWriteFailed => 7,
            Self::KeyLookUp { failed } => 8 + failed as usize,
            Self::KeyLookUpRefused => 10,
        }
    }

    /// The counter's name, and the value of its label `result` if it has one.
    const fn counter(self) -> (&'static str, Option<&'static str>) {
        const fn result(failed: bool) -> Option<&'static str> {
            Some(if failed { "failed" } else { "ok" })
        }
        match self {
            Self::Load { failed } => ("gene_registry_loads_total", result(failed)),
            Self::Refresh => ("gene_registry_refreshes_total", None),
            Self::Waited => ("gene_registry_waits_for_other_replica_total", None),
            Self::NotCurrent => ("gene_registry_not_current_total", None),
            Self::SharedUndecodable => ("gene_registry_shared_undecodable_total", None),
            Self::SharedTooLarge => ("gene_registry_shared_too_large_total", None),
            Self::SharedWriteFailed => ("gene_registry_shared_write_failures_total", None),
            Self::KeyLookUp { failed } => ("gene_registry_key_lookups_total", result(failed)),
            Self::KeyLookUpRefused => ("gene_registry_key_lookups_refused_total", None),
        }
    }
}

/// One counter for each event, registered at the start, so that it is 0 before the first event.
#[derive(Debug)]
pub(super) struct CacheCounters([Counter; CacheEvent::ALL.len()]);

impl CacheCounters {
    pub(super) fn new(recorder: &impl Recorder) -> Self {
        Self(CacheEvent::ALL.map(|event| {
            let key = match event.counter() {
                (name, Some(result)) => labelled(name, "result", result),
                (name, None) => Key::from_static_name(name),
            };
            recorder.register_counter(&key, &METADATA)
        }))
    }

    pub(super) fn count(&self, event: CacheEvent) {
        self.0[event.index()].increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_its_own_index() {
        for (index, event) in CacheEvent::ALL.into_iter().enumerate() {
            assert_eq!(event.index(), index);
        }
    }
}
