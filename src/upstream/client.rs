//! The client of the upstream: polls its change log, and tracks whether it is available.
//!
//! A caller that has a stale entry checks [`UpstreamClient::is_in_use`] first, and does not wait for an
//! unavailable database. A caller without one tries the database in any case, so the first request
//! after an outage is served.
//!
//! The change log is polled at the primary, or, while that is unavailable, at the most advanced
//! standby.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::watch;

use super::change::Changes;
use super::change_log::ChangeLog;
use super::clock::Clock;
use super::error::UpstreamError;
use super::key_changes::{ChangedKeys, KeyChanges};
use super::poll_stats::PollStats;
use super::read::{Read, ReadStamp};
use super::replication::{Position, ReplicationTracker};
use super::source::Upstream;
use super::standbys::{Standby, Standbys, outcome};
use crate::ops::error_chain;
use crate::registry::Timestamp;
use crate::sync::{Breaker, SingleFlight};

/// Interval between polls of the change log.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A client of one upstream and its standbys.
pub struct UpstreamClient {
    /// The configured primary.
    pub(super) upstream: Arc<dyn Upstream>,
    pub(super) standbys: Standbys,
    pub(super) breaker: Breaker,
    pub(super) log: ChangeLog,
    pub(super) clock: Clock,
    replication: Mutex<ReplicationTracker>,
    /// Whether the configured primary is a standby at the moment.
    pub(super) is_standby: AtomicBool,
    /// Pings of the primary in the background.
    pings: SingleFlight<(), ()>,
    /// Whether the last poll of the change log failed.
    is_log_unreadable: AtomicBool,
    /// Whether the change log was last polled at a standby.
    is_log_at_standby: AtomicBool,
    pub(super) polls: PollStats,
    pub(super) key_changes: KeyChanges,
    /// Notified after each poll.
    polled: watch::Sender<()>,
}

impl UpstreamClient {
    /// A client that has not polled yet; [`Self::watch`] must run.
    pub fn new(upstream: Arc<dyn Upstream>) -> Arc<Self> {
        Arc::new(Self {
            standbys: Standbys::new(upstream.standbys()),
            upstream,
            breaker: Breaker::new("the registry's database"),
            log: ChangeLog::default(),
            clock: Clock::default(),
            replication: Mutex::default(),
            is_standby: AtomicBool::new(false),
            pings: SingleFlight::new("database_pings"),
            is_log_unreadable: AtomicBool::new(false),
            is_log_at_standby: AtomicBool::new(false),
            polls: PollStats::begin(),
            key_changes: KeyChanges::default(),
            polled: watch::Sender::new(()),
        })
    }

    /// Polls the change log and the standbys once a second; does not return. This also detects when
    /// the database becomes unavailable and available.
    pub async fn watch(self: Arc<Self>) {
        let _watched = WatchGuard(&self);
        let polls = async {
            loop {
                let begun = Instant::now();
                self.poll().await;
                self.polled.send_replace(());
                tokio::time::sleep(POLL_INTERVAL.saturating_sub(begun.elapsed())).await;
            }
        };
        // Separately, so that a standby that hangs does not delay the others.
        let standbys = join_all(self.standbys.iter().map(|standby| self.poll_replication(standby)));
        tokio::join!(polls, standbys);
    }

    /// Polls a standby after each poll of the primary.
    async fn poll_replication(&self, standby: &Standby) {
        let mut polled = self.polled.subscribe();
        while polled.changed().await.is_ok() {
            let begun = Instant::now();
            let found = standby.position().await;
            self.standbys.polled(standby, found, &self.replication(), (begun, self.now()));
        }
    }

    async fn poll(&self) {
        let was_unavailable = self.breaker.is_open() && !self.standbys.is_empty();
        let (found, at_standby) = if was_unavailable {
            // Concurrently, because an unavailable primary may only time out.
            tokio::join!(self.poll_primary(), self.poll_standby())
        } else {
            (self.poll_primary().await, false)
        };
        let Err(error) = found else { return };
        let is_unavailable =
            matches!(error, UpstreamError::Unreachable(_) | UpstreamError::Timeout);
        if at_standby || (is_unavailable && !was_unavailable && self.poll_standby().await) {
            return;
        }
        self.polls.failed();
        if !self.is_log_unreadable.swap(true, Ordering::AcqRel) {
            let error = error_chain(&error);
            tracing::warn!(
                error,
                "the registry's change log (registry_read.change) cannot be read: only reads after \
                 the last successful poll count as current"
            );
        }
        self.log.poll_failed();
        if matches!(error, UpstreamError::Failed(_)) {
            // Only the log cannot be read; the rest of the database may be available.
            self.ping().await;
        }
    }

    async fn poll_primary(&self) -> Result<(), UpstreamError> {
        loop {
            let (begun, sent_at) = (Instant::now(), Timestamp::now());
            self.replication().begin_poll();
            let found = self.upstream.changes(self.log.present().as_ref()).await;
            self.record(found.as_ref().err(), begun);
            let found = found?;
            // After the changes, so that the position includes them.
            let position = match self.upstream.position().await {
                Ok(position) => position,
                Err(UpstreamError::Failed(_)) => None,
                // Without the position, the timeline of these changes is unknown.
                Err(error) => return Err(error),
            };
            if self.has_new_timeline(&found, position.as_ref()) {
                continue;
            }
            self.clock.set(found.seen.read_at, sent_at);
            let is_standby = position.as_ref().is_some_and(|position| position.is_standby);
            self.is_standby.store(is_standby, Ordering::Release);
            self.apply(found, begun, is_standby);
            if let Some(position) = &position {
                self.replication().add(position);
            }
            if self.is_log_at_standby.swap(false, Ordering::AcqRel) {
                tracing::info!("the registry's change log is read at the primary again");
            }
            return Ok(());
        }
    }

    /// Whether the database began a new timeline since the last poll: a standby was promoted, or a
    /// backup restored. If so, resets all that is known.
    fn has_new_timeline(&self, found: &Read<Changes>, position: Option<&Position>) -> bool {
        let is_standby = position.is_some_and(|position| position.is_standby);
        let is_new = position
            .is_some_and(|position| self.replication().is_other_timeline(position))
            || (!is_standby && self.log.is_ahead_of(found));
        if is_new {
            // The later of both clocks, so that no earlier read has a later stamp.
            let at = self.now().max(found.seen.read_at);
            self.replication().begin_timeline();
            self.log.begin_timeline(at);
            self.upstream.renew();
            tracing::warn!(
                "the registry's database has begun a new timeline (a standby was promoted, or a \
                 backup restored): all cached entries are read again"
            );
        }
        is_new
    }

    /// Polls the standbys, the most advanced first. Returns whether one could be polled.
    async fn poll_standby(&self) -> bool {
        for standby in self.standbys.most_advanced_first() {
            let (upstream, begun, polled_at) = (standby.upstream(), Instant::now(), self.now());
            let polled = async {
                let found = upstream.changes(self.log.present().as_ref()).await?;
                Ok::<_, UpstreamError>((found, upstream.position().await?))
            };
            let (Read { value, seen }, position) = match polled.await {
                Ok((found, Some(position))) => (found, position),
                Ok((_, None)) => continue,
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::debug!(error, "the change log could not be read at a standby");
                    continue;
                }
            };
            let seen = ReadStamp::new(polled_at, seen.snapshot);
            self.apply(Read { value, seen }, begun, true);
            self.replication().add_of_standby(&position, polled_at);
            if !self.is_log_at_standby.swap(true, Ordering::AcqRel) {
                tracing::warn!(
                    "the primary is unavailable: the registry's change log is read at a standby"
                );
            }
            return true;
        }
        false
    }

    /// Applies the result of a poll that began at `begun`.
    fn apply(&self, found: Read<Changes>, begun: Instant, at_standby: bool) {
        self.polls.succeeded(&found.value, begun);
        let changed_keys = ChangedKeys::of(&found.value);
        if self.is_log_unreadable.swap(false, Ordering::AcqRel) {
            tracing::info!("the registry's change log is read again");
        }
        let has_log =
            if at_standby { self.log.polled_standby(found) } else { self.log.polled(found) };
        if has_log == Some(false) {
            tracing::info!(
                "the registry has no change log (registry_read.change): only ages limit the use of \
                 cached entries"
            );
        }
        // After the log was updated, which decides the records that lack the change.
        self.key_changes.add(changed_keys);
    }

    async fn ping(&self) {
        let (begun, sent_at) = (Instant::now(), Timestamp::now());
        let pong = self.upstream.ping().await;
        self.record(pong.as_ref().err(), begun);
        if let Ok(now) = pong {
            self.clock.set(now, sent_at);
        }
    }

    /// Runs a read of the primary, and tells the circuit breaker its outcome.
    pub(super) async fn tracked<T>(
        self: &Arc<Self>,
        read: impl Future<Output = Result<T, UpstreamError>>,
    ) -> Result<T, UpstreamError> {
        let begun = Instant::now();
        let result = read.await;
        match &result {
            // One slow statement does not show that the database is unavailable: ping it.
            Err(UpstreamError::Timeout) => self.ping_in_background(),
            other => self.record(other.as_ref().err(), begun),
        }
        result
    }

    /// Pings the primary in the background, with one ping at a time.
    fn ping_in_background(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.pings.spawn(&(), (), || async move {
            let begun = Instant::now();
            let pong = this.upstream.ping().await;
            this.record(pong.as_ref().err(), begun);
        });
    }

    fn record(&self, error: Option<&UpstreamError>, begun: Instant) {
        let why = || error.map(|error| error_chain(error));
        self.breaker.record(outcome(error), begun, Instant::now(), why);
    }

    pub(super) fn replication(&self) -> MutexGuard<'_, ReplicationTracker> {
        self.replication.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that there are no polls any more, when a panic ends [`UpstreamClient::watch`].
struct WatchGuard<'a>(&'a UpstreamClient);

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        self.0.polls.failed();
        self.0.log.poll_failed();
        // The last poll may have updated the log and not reported the keys.
        self.0.key_changes.add(ChangedKeys::All);
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
