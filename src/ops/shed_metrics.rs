//! The metrics of what is read at once, what waits and what is shed. The list in [`super::series`]
//! says what each means.

use metrics::{Counter, Gauge, Key, Label, Recorder};

use super::metrics::METADATA;

const SHED: &str = "gene_registry_shed_total";
const MISSES: &str = "gene_registry_misses";

/// What was shed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// An answer that somebody waited for.
    Miss,
    /// A page far from the beginning that somebody waited for.
    DeepPage,
    /// A stale answer that was to be read again behind the one sent.
    Refresh,
}

impl Shed {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Miss, "miss"), (Self::DeepPage, "deep_walk"), (Self::Refresh, "refresh")];
}

/// What is counted about reads of the upstream. Cheap to clone; the default counts nothing.
#[derive(Debug, Clone)]
pub struct ShedMetrics {
    shed: [Counter; 3],
    reading: Gauge,
    queued: Gauge,
}

impl Default for ShedMetrics {
    fn default() -> Self {
        Self::new(&metrics::NoopRecorder)
    }
}

impl ShedMetrics {
    pub(super) fn new(recorder: &impl Recorder) -> Self {
        let labelled = |name, label, value| Key::from_parts(name, vec![Label::new(label, value)]);
        let misses = |state| recorder.register_gauge(&labelled(MISSES, "state", state), &METADATA);
        Self {
            shed: Shed::ALL.map(|(_, word)| {
                recorder.register_counter(&labelled(SHED, "what", word), &METADATA)
            }),
            reading: misses("reading"),
            queued: misses("queued"),
        }
    }

    /// Counts something that was shed.
    pub fn shed(&self, what: Shed) {
        self.shed[what as usize].increment(1);
    }

    /// One more is being read, until the result is dropped.
    pub fn reading(&self) -> GaugeGuard {
        GaugeGuard::new(&self.reading)
    }

    /// One more waits for its turn, until the result is dropped.
    pub fn queued(&self) -> GaugeGuard {
        GaugeGuard::new(&self.queued)
    }
}

/// One that is counted in a gauge.
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
    fn what_is_shed_is_counted_under_its_own_word() {
        for (place, (what, _)) in Shed::ALL.iter().enumerate() {
            assert_eq!(*what as usize, place);
        }
    }
}
