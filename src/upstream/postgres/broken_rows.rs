//! Counts the genes that violate the contract of the views, and logs when their number changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::registry::{DomainName, GeneFilter};
use crate::sync::lock;

/// The number of such genes by domain (`None`: in all), without zeros. The primary and its standbys
/// share it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct BrokenRows(Arc<Mutex<HashMap<Option<DomainName>, i64>>>);

impl BrokenRows {
    /// Records the number that a search with this filter left out.
    pub(super) fn record(&self, filter: &GeneFilter, count: i64) {
        if filter.fidelity.is_some() {
            return;
        }
        let mut broken = lock(&self.0);
        let before = if count == 0 {
            broken.remove(&filter.domain)
        } else {
            broken.insert(filter.domain.clone(), count)
        };
        if before.unwrap_or(0) != count {
            let domain = filter.domain.as_ref().map(DomainName::as_str);
            tracing::warn!(
                rows = count,
                domain,
                "genes that violate the contract of registry_read.gene are left out"
            );
        }
    }

    /// The number that the latest unfiltered search left out.
    pub(super) fn total(&self) -> i64 {
        lock(&self.0).get(&None).copied().unwrap_or(0)
    }
}
