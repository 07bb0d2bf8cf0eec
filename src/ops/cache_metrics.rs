//! What caches and keys count. The list in [`super::series`] says what each means.

use metrics::{Counter, Key, Label, Recorder};

use super::metrics::METADATA;

/// Something that happened in the read path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheEvent {
    /// Something was read from the upstream.
    Load {
        /// In vain.
        failed: bool,
    },
    /// A stale answer is read again behind it.
    Refresh,
    /// Another replica was waited for.
    Waited,
    /// An answer at hand was no longer current.
    NotCurrent,
    /// An answer in Redis could not be decoded.
    SharedUndecodable,
    /// An answer was too large to be shared.
    SharedTooLarge,
    /// Something was not written to Redis.
    SharedWriteFailed,
    /// An API key was looked up.
    KeyLookUp {
        /// In vain.
        failed: bool,
    },
    /// A key never seen was not looked up, because too many were.
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

    const fn place(self) -> usize {
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

    /// The counter's name, and its label `result` where it has one.
    const fn series(self) -> (&'static str, Option<&'static str>) {
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

/// A counter for each event, from the start: what has not happened yet is 0, not absent.
#[derive(Debug)]
pub(super) struct CacheCounters([Counter; CacheEvent::ALL.len()]);

impl CacheCounters {
    pub(super) fn new(recorder: &impl Recorder) -> Self {
        Self(CacheEvent::ALL.map(|event| {
            let (name, result) = event.series();
            let labels =
                result.map(|word| Label::new("result", word)).into_iter().collect::<Vec<_>>();
            recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
        }))
    }

    pub(super) fn count(&self, event: CacheEvent) {
        self.0[event.place()].increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_its_own_place() {
        for (place, event) in CacheEvent::ALL.into_iter().enumerate() {
            assert_eq!(event.place(), place);
        }
    }
}
