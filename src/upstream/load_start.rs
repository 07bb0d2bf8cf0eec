//! Decides whether a request may share a load that another request began.

use std::time::{Duration, Instant};

use super::change::DependsOn;
use super::client::UpstreamClient;
use super::snapshot::Snapshot;

/// Within this after its commit, every request sees a change.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// When a load began, and which changes were known then.
#[derive(Debug)]
pub struct LoadStart {
    at: Instant,
    timeline: u64,
    /// The snapshot of the last poll of the change log.
    known: Option<Snapshot>,
}

impl UpstreamClient {
    /// The start of a load that begins now.
    pub fn load_start(&self) -> LoadStart {
        let (timeline, known) = (self.timeline_switches(), self.log.present());
        LoadStart { at: Instant::now(), timeline, known }
    }

    /// Whether a request that is made now may get the result of the load: no change that concerns it
    /// has become known since the load began, and none can have been committed that it must see.
    pub fn may_share(&self, depends_on: DependsOn<'_>, load: &LoadStart) -> bool {
        let since = |known: &Snapshot| self.log.has_changed_since(depends_on, known);
        self.knows_changes_since(load.at.elapsed())
            && load.timeline == self.timeline_switches()
            && !load.known.as_ref().is_some_and(since)
    }

    /// Whether each change of the last `age` is known that a request which is made now must see.
    pub fn knows_changes_since(&self, age: Duration) -> bool {
        age.min(self.polls.age()) < SEEN_WITHIN
    }
}
