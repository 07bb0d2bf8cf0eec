//! What caches and keys count. The table is in [`super::metrics`].

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
    /// The counter's name and label.
    pub(super) const fn series(self) -> (&'static str, Option<(&'static str, &'static str)>) {
        const fn result(failed: bool) -> Option<(&'static str, &'static str)> {
            Some(("result", if failed { "failed" } else { "ok" }))
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
