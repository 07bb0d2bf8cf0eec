//! The metrics of the limits. [`super::catalog`] documents each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

const DECISIONS: &str = "gene_registry_limit_decisions_total";
const LOCAL_FALLBACK: &str = "gene_registry_limit_local_fallback_total";
pub(super) const WAIT_SECONDS: &str = "gene_registry_limit_wait_seconds";
pub(super) const ROUND_TRIP_SECONDS: &str = "gene_registry_limit_round_trip_seconds";
pub(super) const BATCH_REQUESTS: &str = "gene_registry_limit_batch_requests";
pub(super) const BATCH_COMMANDS: &str = "gene_registry_limit_batch_commands";
const POLICY: &str = "gene_registry_limit_policy";

/// The limiter's decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitResult {
    /// It is admitted.
    Admitted,
    /// The window is full.
    Refused,
    /// The window was known to be full, so it was not counted in Redis.
    RefusedLocally,
    /// The window is full, but `rate_limit.enforce` is false.
    Unenforced,
    /// It could not be counted, and was rejected with 503.
    NotCounted,
}

/// The label of each decision, in the order of [`LimitResult`].
const RESULTS: [&str; 5] = ["admitted", "refused", "refused_locally", "unenforced", "not_counted"];

/// The metrics of the limiter, registered with the current recorder; without one they record nothing.
/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct LimitMetrics {
    decisions: [Counter; 5],
    local_fallback: Counter,
    wait: Histogram,
    round_trips: [Histogram; 2],
    batch_requests: Histogram,
    batch_commands: Histogram,
    policy: Arc<PolicyState>,
}

/// The label of each enforcement of the limits.
const POLICIES: [&str; 3] = ["shared", "local", "refusing"];

/// How limits are currently enforced: shown by gauges, and logged when it changes.
#[derive(Debug)]
struct PolicyState {
    /// In the order of [`POLICIES`].
    gauges: [Gauge; 3],
    refuses_without_store: AtomicBool,
    is_store_unavailable: AtomicBool,
}

impl Default for LimitMetrics {
    fn default() -> Self {
        let policy = PolicyState {
            gauges: POLICIES.map(|word| gauge!(POLICY, "state" => word)),
            refuses_without_store: AtomicBool::new(false),
            is_store_unavailable: AtomicBool::new(false),
        };
        Self {
            decisions: RESULTS.map(|word| counter!(DECISIONS, "result" => word)),
            local_fallback: counter!(LOCAL_FALLBACK),
            wait: histogram!(WAIT_SECONDS),
            round_trips: ["failed", "answered"]
                .map(|word| histogram!(ROUND_TRIP_SECONDS, "outcome" => word)),
            batch_requests: histogram!(BATCH_REQUESTS),
            batch_commands: histogram!(BATCH_COMMANDS),
            policy: Arc::new(policy),
        }
    }
}

impl LimitMetrics {
    /// Sets the initial policy. `shared`: requests are counted in Redis; `refuses_without_store`:
    /// they are rejected while that is unavailable.
    pub fn begin(&self, shared: bool, refuses_without_store: bool) {
        self.policy.refuses_without_store.store(refuses_without_store && shared, Ordering::Relaxed);
        self.policy.is_store_unavailable.store(!shared, Ordering::Relaxed);
        self.policy.show(!shared);
    }

    /// Counts a decision.
    pub fn decided(&self, result: LimitResult) {
        self.decisions[result as usize].increment(1);
    }

    /// Counts a decision that was made with this replica's own share of the limit.
    pub fn local_fallback(&self) {
        self.local_fallback.increment(1);
    }

    /// Records how long a request waited for its count.
    pub fn waited(&self, time: Duration) {
        self.wait.record(time);
    }

    /// Records a round trip to Redis.
    pub fn round_trip(&self, commands: usize, requests: u32, answered: bool, took: Duration) {
        self.round_trips[usize::from(answered)].record(took);
        self.batch_requests.record(requests);
        self.batch_commands.record(u32::try_from(commands).unwrap_or(u32::MAX));
    }

    /// Records whether the shared store is unavailable, and logs a change. Returns whether it changed.
    pub fn set_store_unavailable(&self, unavailable: bool) -> bool {
        let policy = &self.policy;
        let current = &policy.is_store_unavailable;
        if current.load(Ordering::Relaxed) == unavailable
            || current.swap(unavailable, Ordering::Relaxed) == unavailable
        {
            return false;
        }
        policy.show(unavailable);
        match (unavailable, policy.refuses_without_store.load(Ordering::Relaxed)) {
            (false, _) => tracing::info!("redis is available again: limits are counted in redis"),
            (true, true) => tracing::warn!(
                "redis is unavailable: requests cannot be counted, and are rejected with 503"
            ),
            (true, false) => tracing::warn!(
                "redis is unavailable: each replica enforces its own share of the limits"
            ),
        }
        true
    }
}

impl PolicyState {
    fn show(&self, unavailable: bool) {
        let refuses = self.refuses_without_store.load(Ordering::Relaxed);
        let current = [!unavailable, unavailable && !refuses, unavailable && refuses];
        for (gauge, is_current) in self.gauges.iter().zip(current) {
            gauge.set(f64::from(u8::from(is_current)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_labels_are_in_the_same_order() {
        for (result, word) in [
            (LimitResult::Admitted, "admitted"),
            (LimitResult::Refused, "refused"),
            (LimitResult::RefusedLocally, "refused_locally"),
            (LimitResult::Unenforced, "unenforced"),
            (LimitResult::NotCounted, "not_counted"),
        ] {
            assert_eq!(RESULTS[result as usize], word);
        }
    }
}
