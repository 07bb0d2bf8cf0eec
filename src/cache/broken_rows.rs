//! Counts the genes that violate the contract of the views, and logs when their number changes.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::registry::{Count, DomainName, GeneFilter};
use crate::sync::lock;

/// The number of such genes by domain (`None`: in all), without zeros.
#[derive(Debug, Default)]
pub(super) struct BrokenRows(Mutex<HashMap<Option<DomainName>, Count>>);

impl BrokenRows {
    /// Records the number that a search with this filter left out.
    pub(super) fn record(&self, filter: &GeneFilter, count: Count) {
        if filter.fidelity.is_some() {
            return;
        }
        let mut broken = lock(&self.0);
        let before = if count == Count::default() {
            broken.remove(&filter.domain)
        } else {
            broken.insert(filter.domain.clone(), count)
        };
        if before.unwrap_or_default() != count {
            let domain = filter.domain.as_ref().map(DomainName::as_str);
            tracing::warn!(
                rows = count.get(),
                domain,
                "genes that violate the contract of registry_read.gene are left out"
            );
        }
    }

    /// The number that the latest unfiltered search left out.
    pub(super) fn total(&self) -> u64 {
        lock(&self.0).get(&None).copied().unwrap_or_default().get()
    }
}
