//! The metrics of concurrent, queued and shed reads. [`super::catalog`] documents each.

use metrics::{Counter, Gauge, counter, gauge};

const SHED: &str = "gene_registry_shed_total";
const MISSES: &str = "gene_registry_misses";

/// The kind of a shed read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// A read that a request waited for.
    Miss,
    /// The read of a deep page that a request waited for.
    DeepPage,
    /// A background refresh.
    Refresh,
}

/// The label of each kind, in the order of [`Shed`].
const KINDS: [&str; 3] = ["miss", "deep_page", "refresh"];

/// The metrics of the read limiter, registered with the current recorder; without one they record
/// nothing. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ShedMetrics {
    shed: [Counter; 3],
    reading: Gauge,
    queued: Gauge,
}

impl Default for ShedMetrics {
    fn default() -> Self {
        Self {
            shed: KINDS.map(|word| counter!(SHED, "what" => word)),
            reading: gauge!(MISSES, "state" => "reading"),
            queued: gauge!(MISSES, "state" => "queued"),
        }
    }
}

impl ShedMetrics {
    /// Counts a shed read.
    pub fn shed(&self, kind: Shed) {
        self.shed[kind as usize].increment(1);
    }

    /// Counts a running read until the guard is dropped.
    pub fn reading(&self) -> GaugeGuard {
        GaugeGuard::new(&self.reading)
    }

    /// Counts a queued read until the guard is dropped.
    pub fn queued(&self) -> GaugeGuard {
        GaugeGuard::new(&self.queued)
    }
}

/// Adds 1 to a gauge until it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: &Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_labels_are_in_the_same_order() {
        for (kind, word) in
            [(Shed::Miss, "miss"), (Shed::DeepPage, "deep_page"), (Shed::Refresh, "refresh")]
        {
            assert_eq!(KINDS[kind as usize], word);
        }
    }
}
