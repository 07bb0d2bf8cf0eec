//! The upstream as caches and keys use it: it is known whether the database is there, and what
//! has changed since something was read.
//!
//! Whoever has something older to send asks [`UpstreamClient::is_in_use`] first and does not wait for a
//! database that is known to be away. Whoever has nothing tries all the same: so the very first
//! request after its return is served.
//!
//! The change log is read at the primary, and while that is away at the standby that has come
//! furthest.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::watch;

use super::change_log::{ChangeLog, DependsOn, ReadStamp};
use super::key_changes::{ChangedKeys, KeyChanges};
use super::polls::{Clock, PollCounts, PollStats};
use super::replication::{Position, ReplicationTracker};
use super::standbys::{Standby, StandbyState, Standbys, outcome};
use super::{Changes, Read, Upstream, UpstreamError};
use crate::ops::{PoolState, error_chain};
use crate::registry::Timestamp;
use crate::sync::Breaker;

/// Between two looks into the change log.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
pub struct UpstreamClient {
    /// The primary, as far as it is known.
    pub(super) upstream: Arc<dyn Upstream>,
    pub(super) standbys: Standbys,
    breaker: Breaker,
    log: ChangeLog,
    clock: Clock,
    course: Mutex<ReplicationTracker>,
    /// What is called the primary is a standby at the moment.
    pub(super) only_follows: AtomicBool,
    being_asked: AtomicBool,
    unreadable: AtomicBool,
    read_at_standby: AtomicBool,
    polls: PollStats,
    key_changes: KeyChanges,
    polled: watch::Sender<()>,
}

impl UpstreamClient {
    /// An upstream of which nothing is known yet; [`Self::watch`] must run.
    pub fn new(upstream: Arc<dyn Upstream>) -> Arc<Self> {
        Arc::new(Self {
            standbys: Standbys::new(upstream.standbys()),
            upstream,
            breaker: Breaker::new("the registry's database"),
            log: ChangeLog::default(),
            clock: Clock::default(),
            course: Mutex::default(),
            only_follows: AtomicBool::new(false),
            being_asked: AtomicBool::new(false),
            unreadable: AtomicBool::new(false),
            read_at_standby: AtomicBool::new(false),
            polls: PollStats::begin(),
            key_changes: KeyChanges::default(),
            polled: watch::Sender::new(()),
        })
    }

    /// Looks into the change log, once a second, for ever. This also notices when the database
    /// goes away and when it is back, and how far standbys have followed.
    pub async fn watch(self: Arc<Self>) {
        let polls = async {
            loop {
                let begun = Instant::now();
                self.poll().await;
                self.polled.send_replace(());
                tokio::time::sleep(POLL_INTERVAL.saturating_sub(begun.elapsed())).await;
            }
        };
        // Each by itself: one that hangs delays nobody.
        let standbys = join_all(self.standbys.iter().map(|standby| self.follow(standby)));
        tokio::join!(polls, standbys);
    }

    /// Looks at a standby after each look at the primary.
    async fn follow(&self, standby: &Standby) {
        let mut polled = self.polled.subscribe();
        while polled.changed().await.is_ok() {
            let begun = Instant::now();
            let found = standby.upstream().position().await;
            self.standbys.polled(standby, found, &self.course(), (begun, self.now()));
        }
    }

    async fn poll(&self) {
        let away = self.breaker.is_open() && !self.standbys.is_empty();
        let (found, at_standby) = if away {
            // Not one after the other: the primary may take its time to say nothing.
            tokio::join!(self.poll_primary(), self.poll_standby())
        } else {
            (self.poll_primary().await, false)
        };
        let Err(error) = found else { return };
        let is_away = matches!(error, UpstreamError::Unreachable(_) | UpstreamError::Timeout);
        if at_standby || (is_away && !away && self.poll_standby().await) {
            return;
        }
        self.polls.failed();
        if !self.unreadable.swap(true, Ordering::AcqRel) {
            let error = error_chain(&error);
            tracing::warn!(
                error,
                "the registry's change log (registry_read.change) cannot be read: only what was \
                 read after the last look counts as current"
            );
        }
        self.log.poll_failed();
        if matches!(error, UpstreamError::Failed(_)) {
            // The log alone: the rest is read, and has ages.
            self.ping().await;
        }
    }

    async fn poll_primary(&self) -> Result<(), UpstreamError> {
        loop {
            let (begun, asked) = (Instant::now(), Timestamp::now());
            self.course().begin_poll();
            let found = self.upstream.changes(self.log.present().as_ref()).await;
            self.judge(found.as_ref().err(), begun);
            let found = found?;
            // After it, so that what is known to have changed was there to be seen.
            let position = match self.upstream.position().await {
                Ok(position) => position,
                Err(UpstreamError::Failed(_)) => None,
                // Then it is not known whose changes these are.
                Err(error) => return Err(error),
            };
            if self.has_begun_again(&found, position.as_ref()) {
                continue;
            }
            self.clock.set(found.seen.read_at, asked);
            let only_follows = position.as_ref().is_some_and(|position| position.is_standby);
            self.only_follows.store(only_follows, Ordering::Release);
            self.learn(found, only_follows);
            if let Some(position) = &position {
                self.course().add(position);
            }
            if self.read_at_standby.swap(false, Ordering::AcqRel) {
                tracing::info!("the registry's change log is read at the primary again");
            }
            return Ok(());
        }
    }

    /// Whether what was found belongs to another history of the database than what is known:
    /// another server was promoted, or a copy restored. Then nothing that is known holds.
    fn has_begun_again(&self, found: &Read<Changes>, position: Option<&Position>) -> bool {
        let follows = position.is_some_and(|position| position.is_standby);
        let another = position.is_some_and(|position| self.course().is_left_by(position))
            || (!follows && self.log.is_ahead_of(found));
        if another {
            // By whichever clock is ahead, so that nothing read before it is later than it.
            let at = self.now().max(found.seen.read_at);
            self.course().begin_again();
            self.log.begin_again(at);
            self.upstream.renew();
            tracing::warn!(
                "the registry's database has begun another history (a standby was promoted, or a \
                 copy restored): everything is read again"
            );
        }
        another
    }

    /// Whether the log was read at a standby.
    async fn poll_standby(&self) -> bool {
        for standby in self.standbys.furthest_first() {
            let (upstream, at) = (standby.upstream(), self.now());
            let polled = async {
                let found = upstream.changes(self.log.present().as_ref()).await?;
                Ok::<_, UpstreamError>((found, upstream.position().await?))
            };
            let (Read { value, seen }, position) = match polled.await {
                Ok((found, Some(position))) => (found, position),
                Ok((_, None)) => continue,
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::debug!(error, "the change log was not read at a standby");
                    continue;
                }
            };
            self.learn(Read { value, seen: ReadStamp::new(at, seen.snapshot) }, true);
            self.course().add_of_standby(&position, at);
            if !self.read_at_standby.swap(true, Ordering::AcqRel) {
                tracing::warn!(
                    "the primary is away: the registry's change log is read at a standby"
                );
            }
            return true;
        }
        false
    }

    fn learn(&self, found: Read<Changes>, at_standby: bool) {
        self.polls.good(&found.value);
        let changed_keys = ChangedKeys::of(&found.value);
        if self.unreadable.swap(false, Ordering::AcqRel) {
            tracing::info!("the registry's change log is read again");
        }
        let is_news =
            if at_standby { self.log.polled_standby(found) } else { self.log.polled(found) };
        if is_news == Some(false) {
            tracing::info!("the registry has no change log: ages alone count");
        }
        // After the log has learnt of them: it is asked which records lack the change.
        self.key_changes.add(changed_keys);
    }

    async fn ping(&self) {
        let (begun, asked) = (Instant::now(), Timestamp::now());
        let answer = self.upstream.ping().await;
        self.judge(answer.as_ref().err(), begun);
        if let Ok(now) = answer {
            self.clock.set(now, asked);
        }
    }

    /// Whether it is known what is current, so that shared answers can be judged.
    pub fn is_settled(&self) -> bool {
        self.log.is_settled()
    }

    /// Whether the database is in use: not known to be away, or one of its standbys is read.
    pub fn is_in_use(&self) -> bool {
        self.is_primary_in_use() || self.standbys.is_any_in_use(self.now())
    }

    /// Whether the primary is in use.
    pub fn is_primary_in_use(&self) -> bool {
        !self.breaker.is_open()
    }

    /// How each standby is.
    pub fn standby_states(&self) -> Vec<StandbyState> {
        self.standbys.states(self.now())
    }

    /// How often the database has begun another history.
    pub fn histories_ended(&self) -> u64 {
        self.course().ended()
    }

    /// How often the database was found to be away.
    pub fn open_count(&self) -> u64 {
        self.breaker.open_count()
    }

    /// Its pools of connections by name, where it has any.
    pub fn pools(&self) -> Vec<(&'static str, PoolState)> {
        self.upstream.pools()
    }

    /// The looks into the change log up to now.
    pub fn polls(&self) -> PollCounts {
        self.polls.up_to_now()
    }

    /// Rows that the latest unfiltered search left out because they break the contract.
    pub fn broken_rows(&self) -> i64 {
        self.upstream.broken_rows()
    }

    /// Whether every known change that concerns what was `seen` is visible in it.
    pub fn is_current(&self, concern: DependsOn<'_>, seen: &ReadStamp) -> bool {
        self.log.is_current(concern, seen)
    }

    /// Whether a change is known that concerns what was `seen` and is not visible in it. Unlike
    /// [`Self::is_current`], doubt (an unreadable log, a fail-over) is no answer.
    pub fn is_known_to_have_changed(&self, concern: DependsOn<'_>, seen: &ReadStamp) -> bool {
        self.log.is_known_to_have_changed(concern, seen)
    }

    /// Waits until polls find that API keys have changed, and takes those keys. Each is taken
    /// once, so one task alone may call this.
    pub async fn changed_keys(&self) -> ChangedKeys {
        self.key_changes.take().await
    }

    /// The time by the upstream's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) async fn guarded<T>(
        self: &Arc<Self>,
        read: impl Future<Output = Result<T, UpstreamError>>,
    ) -> Result<T, UpstreamError> {
        let begun = Instant::now();
        let result = read.await;
        match &result {
            // One slow statement does not say that the database is away; ask it.
            Err(UpstreamError::Timeout) => self.ask_whether_it_is_there(),
            other => self.judge(other.as_ref().err(), begun),
        }
        result
    }

    /// One question at a time, behind everybody's back.
    fn ask_whether_it_is_there(self: &Arc<Self>) {
        if self.being_asked.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let begun = Instant::now();
            let answer = this.upstream.ping().await;
            this.judge(answer.as_ref().err(), begun);
            this.being_asked.store(false, Ordering::Release);
        });
    }

    fn judge(&self, error: Option<&UpstreamError>, begun: Instant) {
        let why = || error.map(|error| error_chain(error));
        self.breaker.record_with_reason(outcome(error), begun, Instant::now(), why);
    }

    fn course(&self) -> MutexGuard<'_, ReplicationTracker> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "watched_tests.rs"]
mod tests;
