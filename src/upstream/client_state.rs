//! The state that the client of the upstream has found: availability, currency, clock, statistics.
//! Nothing here sends a request.

use super::change::DependsOn;
use super::client::UpstreamClient;
use super::key_changes::ChangedKeys;
use super::poll_stats::PollCounts;
use super::read::ReadStamp;
use super::standbys::StandbyState;
use crate::ops::PoolState;
use crate::registry::Timestamp;

impl UpstreamClient {
    /// Whether the change log has been loaded, so that entries of the shared cache can be checked.
    pub fn is_settled(&self) -> bool {
        self.log.is_settled()
    }

    /// Whether the primary is not known to be unavailable, or a standby is read.
    pub fn is_in_use(&self) -> bool {
        self.is_primary_in_use() || self.standbys.is_any_in_use(self.now())
    }

    /// Whether the primary is not known to be unavailable.
    pub fn is_primary_in_use(&self) -> bool {
        !self.breaker.is_open()
    }

    /// The state of each standby, in the order of the configuration.
    pub fn standby_states(&self) -> Vec<StandbyState> {
        self.standbys.states(self.now())
    }

    /// How often the database has begun a new timeline.
    pub fn timeline_switches(&self) -> u64 {
        self.replication().ended()
    }

    /// How often the circuit breaker of the primary has opened.
    pub fn open_count(&self) -> u64 {
        self.breaker.open_count()
    }

    /// The connection pools by name, if there are any.
    pub fn pools(&self) -> Vec<(&'static str, PoolState)> {
        self.upstream.pools()
    }

    /// The polls of the change log so far.
    pub fn polls(&self) -> PollCounts {
        self.polls.counts()
    }

    /// Number of genes that the latest unfiltered search left out because they violate the
    /// contract of the views.
    pub fn broken_rows(&self) -> i64 {
        self.upstream.broken_rows()
    }

    /// Whether every known change that concerns the read is visible in its snapshot.
    pub fn is_current(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
        self.log.is_current(depends_on, seen)
    }

    /// Whether a known change concerns the read and is not visible in its snapshot. Unlike
    /// [`Self::is_current`], this ignores doubts, such as an unreadable log or a fail-over.
    pub fn is_known_to_have_changed(&self, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
        self.log.is_known_to_have_changed(depends_on, seen)
    }

    /// Waits until polls find changed API keys, and takes those keys. Each is taken once, so only one
    /// task may call this.
    pub async fn changed_keys(&self) -> ChangedKeys {
        self.key_changes.take().await
    }

    /// The current time by the upstream's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
