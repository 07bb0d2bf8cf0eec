//! Polls the change log: at the primary, or, while that is unavailable, at the most advanced standby.
//! The position that each poll begins with shows whether the database is available; a change log
//! that cannot be read says nothing about that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::change::Changes;
use super::client::UpstreamClient;
use super::clock::BootInstant;
use super::error::{UpstreamError, record};
use super::history::Position;
use super::key_changes::ChangedKeys;
use super::read::{Read, ReadStamp};
use super::source::Upstream;
use super::standbys::Standby;
use crate::ops::error_chain;
use crate::sync::lock;

/// Interval between polls of the change log.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of one attempt to read the change log.
const POLL_TIMEOUT: Duration = Duration::from_millis(800);

/// Polls for one client.
pub struct ChangePoller {
    client: Arc<UpstreamClient>,
    is_log_unreadable: AtomicBool,
    is_at_standby: AtomicBool,
    /// Sent when a poll of the primary has learned its position, or why it is unavailable.
    polled: watch::Sender<Option<String>>,
}

/// Why a poll failed.
enum PollError {
    /// The database did.
    Database(UpstreamError),
    /// Only its change log could not be read.
    Log(UpstreamError),
}

impl ChangePoller {
    /// Does not poll yet.
    pub fn new(client: Arc<UpstreamClient>) -> Self {
        let [is_log_unreadable, is_at_standby] = [const { AtomicBool::new(false) }; 2];
        Self { client, is_log_unreadable, is_at_standby, polled: watch::Sender::new(None) }
    }

    /// Polls the change log and the standbys once a second; does not return.
    pub async fn run(self) {
        let polls = async {
            loop {
                let begun = Instant::now();
                match self.poll_primary().await {
                    Ok(()) => {}
                    Err(PollError::Log(error)) => self.failed(&error_chain(&error)),
                    Err(PollError::Database(error)) => {
                        self.polled.send_replace(Some(error_chain(&error)));
                    }
                }
                sleep(POLL_INTERVAL.saturating_sub(begun.elapsed())).await;
            }
        };
        // Separately, so that a standby that hangs does not delay the others.
        let standbys =
            self.client.standbys.each.iter().map(|standby| self.poll_replication(standby));
        tokio::join!(polls, self.replace_primary(), join_all(standbys));
    }

    /// Polls a standby after each poll of the primary.
    async fn poll_replication(&self, standby: &Standby) {
        let (mut polled, client) = (self.polled.subscribe(), &self.client);
        while polled.changed().await.is_ok() {
            let primary = &*client.primary;
            client.standbys.poll(standby, primary, &client.log, &client.replication).await;
        }
    }

    /// Polls the change log at the standbys after each poll that finds the primary unavailable, until
    /// the primary answers.
    async fn replace_primary(&self) {
        let mut polled = self.polled.subscribe();
        while polled.changed().await.is_ok() {
            let Some(error) = polled.borrow_and_update().clone() else { continue };
            // First, so that no poll of a standby is applied once the primary has answered.
            tokio::select! {
                biased;
                _ = polled.wait_for(Option::is_none) => {}
                is_polled = self.poll_standby() => {
                    if !is_polled {
                        self.failed(&error);
                    }
                }
            }
        }
    }

    /// Counts a poll that failed at each server.
    fn failed(&self, error: &str) {
        lock(&self.client.polls).failed += 1;
        if !self.is_log_unreadable.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                error,
                "the registry's change log (registry_read.change) cannot be read: cached entries \
                 are unconfirmed, and are read again when they are requested"
            );
        }
    }

    async fn poll_primary(&self) -> Result<(), PollError> {
        let (client, began, begun) = (&*self.client, BootInstant::now(), Instant::now());
        let position = client.primary.position().await;
        record(&client.breaker, position.as_ref().err(), begun);
        if matches!(position, Ok(_) | Err(UpstreamError::LoginRefused(_))) {
            client.is_login_refused.store(position.is_err(), Ordering::Relaxed);
        }
        let position = position.map_err(PollError::Database)?;
        client.clock.set(position.read_at, began);
        self.begin_history(&position);
        self.add_checkpoint(&position, began);
        self.polled.send_replace(None);
        let found = self.changes(&client.primary, &position).await.map_err(PollError::Log)?;
        self.apply(found, began);
        if self.is_at_standby.swap(false, Ordering::AcqRel) {
            tracing::info!("the registry's change log is read at the primary again");
        }
        Ok(())
    }

    /// Begins another history if the primary has another than before.
    fn begin_history(&self, position: &Position) {
        let (client, mut tracker) = (&*self.client, lock(&self.client.replication));
        if tracker.history == Some(position.history) {
            return;
        }
        let is_first = tracker.history.is_none();
        client.log.begin_history(tracker.begin_history(position.history), position.server);
        if !is_first {
            client.primary.reconnect();
            tracing::warn!(
                "the registry's database has begun another history (it was restarted, a standby was \
                 promoted, or a backup restored): all cached entries are read again"
            );
        }
    }

    /// Polls the standbys, the most advanced first. Returns whether one could be polled.
    async fn poll_standby(&self) -> bool {
        let client = &*self.client;
        if client.history().is_none()
            && let Some(history) = client.standbys.newest_history()
        {
            client.adopt_history(history, Some(0));
        }
        for Standby { upstream, .. } in client.standbys.most_advanced_first() {
            let began = BootInstant::now();
            let polled = async {
                let position = upstream.position().await?;
                if position.server.is_some_and(|server| !server.is_standby) {
                    // Otherwise its reads would count as those of the present history.
                    return Err(UpstreamError::Failed("it is no standby any more".into()));
                }
                self.add_checkpoint(&position, began);
                self.changes(upstream, &position).await
            };
            match polled.await {
                Ok(found) => {
                    self.apply(found, began);
                    if !self.is_at_standby.swap(true, Ordering::AcqRel) {
                        tracing::warn!(
                            "the primary is unavailable: the registry's change log is read at a \
                             standby"
                        );
                    }
                    return true;
                }
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::debug!(error, "the change log could not be read at a standby");
                }
            }
        }
        false
    }

    /// Adds what a server at this position shows as a checkpoint.
    fn add_checkpoint(&self, position: &Position, began: BootInstant) {
        let (client, Some(wal)) = (&*self.client, position.wal) else { return };
        let mut tracker = lock(&client.replication);
        // On a standby, the newest checkpoint that it shows may see more than its own snapshot.
        let own = &position.snapshot;
        let reached = tracker.newest_reached(position).and_then(|stamp| stamp.snapshot.as_ref());
        let snapshot = reached.filter(|reached| !own.sees_all_of(reached)).unwrap_or(own).clone();
        let stamp = ReadStamp::new(client.time_at(began), Some(snapshot));
        let mut stamp = client.log.read_start().stamp_of_poll(stamp, began, wal);
        if position.server.is_some_and(|server| server.is_standby) {
            // A standby may lack transactions that were committed long before the poll.
            stamp.not_before = BootInstant::MIN;
        }
        tracker.add(wal, stamp);
    }

    /// Reads the changes at the server that has just told its position. Also returns the bytes of its
    /// write-ahead log after that, where there are standbys.
    async fn changes(
        &self,
        upstream: &Arc<dyn Upstream>,
        position: &Position,
    ) -> Result<(Read<Changes>, Option<u64>), UpstreamError> {
        let (since, has_standbys) =
            (self.client.log.since(), !self.client.standbys.each.is_empty());
        let attempt = async || {
            let found = timeout(POLL_TIMEOUT, upstream.changes(since.as_ref())).await;
            let found = found.unwrap_or(Err(UpstreamError::Timeout))?;
            let after = if has_standbys { Some(upstream.position().await?) } else { None };
            let servers =
                [found.seen.server, after.as_ref().map_or(position.server, |at| at.server)];
            if servers == [position.server; 2] {
                Ok((found, after.and_then(|after| after.wal)))
            } else {
                Err(UpstreamError::Failed("several servers answer in turn".into()))
            }
        };
        match attempt().await {
            // On another connection.
            Err(_) => attempt().await,
            found => found,
        }
    }

    /// Applies the result of a poll that began at `began`.
    fn apply(&self, (found, wal): (Read<Changes>, Option<u64>), began: BootInstant) {
        let client = &*self.client;
        lock(&client.polls).add(&found.value, began);
        let changed_keys = ChangedKeys::of(&found.value);
        if self.is_log_unreadable.swap(false, Ordering::AcqRel) {
            tracing::info!("the registry's change log is read again");
        }
        let (poll, has_log) = client.log.apply(found, began, wal);
        if has_log == Some(false) {
            tracing::info!(
                "the registry has no change log (registry_read.change): only ages limit the use of \
                 cached entries"
            );
        }
        client.key_changes.add(changed_keys, poll);
    }
}
