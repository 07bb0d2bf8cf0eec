//! The metrics of the limits. The list in [`super::series`] says what each means.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, Label, Recorder};

use super::metrics::METADATA;

const DECISIONS: &str = "gene_registry_limit_decisions_total";
const ALONE: &str = "gene_registry_limit_decided_alone_total";
pub(super) const WAIT_SECONDS: &str = "gene_registry_limit_wait_seconds";
pub(super) const ROUND_TRIP_SECONDS: &str = "gene_registry_limit_round_trip_seconds";
pub(super) const BATCH_REQUESTS: &str = "gene_registry_limit_batch_requests";
pub(super) const BATCH_COMMANDS: &str = "gene_registry_limit_batch_commands";
const POLICY: &str = "gene_registry_limit_policy";

/// How a request was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitResult {
    /// It may go on.
    Admitted,
    /// The window is full.
    Refused,
    /// The window was known to be full, so nobody was asked.
    RefusedLocally,
    /// The window is full, but `rate_limit.enforce` is off.
    Unenforced,
    /// It could not be counted, and is refused for that.
    NotCounted,
}

impl LimitResult {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Admitted, "admitted"),
        (Self::Refused, "refused"),
        (Self::RefusedLocally, "refused_locally"),
        (Self::Unenforced, "unenforced"),
        (Self::NotCounted, "not_counted"),
    ];
}

/// What is counted and measured about limits. Cheap to clone; the default measures nothing.
#[derive(Debug, Clone)]
pub struct LimitMetrics {
    decisions: [Counter; 5],
    alone: Counter,
    wait: Histogram,
    round_trips: [Histogram; 2],
    batch_requests: Histogram,
    batch_commands: Histogram,
    policy: Arc<PolicyState>,
}

/// The policy's state, by gauge and, when it changes, by log.
#[derive(Debug)]
struct PolicyState {
    shared: Gauge,
    local: Gauge,
    refusing: Gauge,
    refuses_when_away: AtomicBool,
    away: AtomicBool,
}

impl Default for LimitMetrics {
    fn default() -> Self {
        Self::new(&metrics::NoopRecorder)
    }
}

impl LimitMetrics {
    pub(super) fn new(recorder: &impl Recorder) -> Self {
        let counter = |key: Key| recorder.register_counter(&key, &METADATA);
        let histogram = |key: Key| recorder.register_histogram(&key, &METADATA);
        let state = |value| recorder.register_gauge(&labelled(POLICY, "state", value), &METADATA);
        let policy = PolicyState {
            shared: state("shared"),
            local: state("local"),
            refusing: state("refusing"),
            refuses_when_away: AtomicBool::new(false),
            away: AtomicBool::new(false),
        };
        Self {
            decisions: LimitResult::ALL
                .map(|(_, word)| counter(labelled(DECISIONS, "result", word))),
            alone: counter(Key::from_static_name(ALONE)),
            wait: histogram(Key::from_static_name(WAIT_SECONDS)),
            round_trips: ["failed", "answered"]
                .map(|word| histogram(labelled(ROUND_TRIP_SECONDS, "outcome", word))),
            batch_requests: histogram(Key::from_static_name(BATCH_REQUESTS)),
            batch_commands: histogram(Key::from_static_name(BATCH_COMMANDS)),
            policy: Arc::new(policy),
        }
    }

    /// Says what the policy is at the start: whether there is a shared count, and whether requests
    /// are refused while it is away.
    pub fn begin(&self, shared: bool, refuses_when_away: bool) {
        self.policy.refuses_when_away.store(refuses_when_away && shared, Ordering::Relaxed);
        self.policy.away.store(!shared, Ordering::Relaxed);
        self.policy.show(!shared);
    }

    /// Counts a decision.
    pub fn decided(&self, result: LimitResult) {
        self.decisions[result as usize].increment(1);
    }

    /// Counts a decision that was made by this replica's own share.
    pub fn local_fallback(&self) {
        self.alone.increment(1);
    }

    /// Measures how long a request waited for its count.
    pub fn waited(&self, time: Duration) {
        self.wait.record(time);
    }

    /// Measures a round trip.
    pub fn round_trip(&self, commands: usize, requests: u32, answered: bool, took: Duration) {
        self.round_trips[usize::from(answered)].record(took);
        self.batch_requests.record(requests);
        self.batch_commands.record(u32::try_from(commands).unwrap_or(u32::MAX));
    }

    /// Shows, and where it changes logs, whether the shared count is away. Whether it has changed.
    pub fn store_is_away(&self, away: bool) -> bool {
        let policy = &self.policy;
        if policy.away.load(Ordering::Relaxed) == away
            || policy.away.swap(away, Ordering::Relaxed) == away
        {
            return false;
        }
        policy.show(away);
        match (away, policy.refuses_when_away.load(Ordering::Relaxed)) {
            (false, _) => tracing::info!("limits are counted in redis again"),
            (true, true) => tracing::warn!("limits cannot be counted: requests are refused"),
            (true, false) => tracing::warn!("limits are this replica's own share for now"),
        }
        true
    }
}

impl PolicyState {
    fn show(&self, away: bool) {
        let refuses = self.refuses_when_away.load(Ordering::Relaxed);
        self.shared.set(f64::from(u8::from(!away)));
        self.local.set(f64::from(u8::from(away && !refuses)));
        self.refusing.set(f64::from(u8::from(away && refuses)));
    }
}

fn labelled(name: &'static str, label: &'static str, value: &'static str) -> Key {
    Key::from_parts(name, vec![Label::new(label, value)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_under_their_own_word() {
        for (place, (result, _)) in LimitResult::ALL.iter().enumerate() {
            assert_eq!(*result as usize, place);
        }
    }
}
