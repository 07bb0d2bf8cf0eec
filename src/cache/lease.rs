//! Leases in Redis: the replica that holds the lease of a request reads the upstream for the whole
//! fleet and publishes the result, and the others wait for it. A result is published and the lease
//! released in one round trip. An entry never replaces one that shows a later state.

use std::sync::Arc;
use std::time::Duration;

use redis::{FromRedisValue, Value, cmd};
use tokio::time::{Instant, sleep, timeout_at};

use super::codec::{self, transactions};
use super::entry::Entry;
use super::room::Publishable;
use super::serve_policy::SharedLifetimes;
use super::shared::{SharedCache, milliseconds};
use crate::ops::CacheEvent;
use crate::redis::scripts::{ACQUIRE_LEASE, DELETE_IF_EQUAL, DELETE_IF_OLDER, PUT_IF_NEWER};
use crate::redis::{AccessMode, Call, EntryKeys};
use crate::registry::Request;
use crate::sync::supervised::contain;
use crate::upstream::{BootInstant, ReadStamp, UpstreamError};

/// Pause of a waiting replica before each poll for the result.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Time to live of the marker that tells waiting replicas of a result without an entry.
const OUTCOME_TTL: Duration = Duration::from_secs(1);

/// The time to live by which [`PUT_IF_NEWER`] stores no new entry.
const NOT_STORED: &str = "0";

/// The name of the tasks that publish results.
pub(super) const PUBLICATIONS: &str = "cache_publications";

const FAILED: &str = "failed";
const TIMED_OUT: &str = "timeout";
const ABSENT: &str = "absent";

/// The right to read an entry for the whole fleet.
#[derive(Debug)]
pub(super) struct Lease {
    keys: EntryKeys,
    /// The number of the history that the keys are for.
    history: u64,
    /// The holder's token.
    token: String,
    /// Whether Redis had no entry when this replica tried to acquire the lease.
    was_vacant: bool,
    /// Whether Redis then had another entry than the known one: the previous holder may have just
    /// published it.
    pub(super) has_other_entry: bool,
}

/// The result of trying to acquire a lease.
#[derive(Debug)]
pub(super) enum LeaseAttempt {
    /// This replica holds it, and has to release it.
    Acquired(Lease),
    /// Another replica holds it.
    Held(Lease),
}

/// The result of waiting for the holder of a lease.
#[derive(Debug)]
pub(super) enum LeaseOutcome {
    /// The entry that it published.
    Entry(Arc<Entry>),
    /// The gene or domain does not exist, as of this read.
    Absent(ReadStamp),
    /// Its read failed like this.
    Failed(UpstreamError),
    /// It released the lease, or let it expire, without a result.
    LeaseEnded,
}

impl SharedCache {
    /// Tries to acquire the lease of `request`, whose entry in Redis was `known`. `None` if Redis is
    /// unavailable, or if the holder began too early for this request.
    pub(super) async fn acquire_lease(
        &self,
        request: &Request,
        known: Option<&Entry>,
    ) -> Option<LeaseAttempt> {
        let (keys, history) = self.keys(request)?;
        let token = random_token();
        let acquire = Call::script(&ACQUIRE_LEASE, &keys.lease)
            .arg(token.as_bytes())
            .arg(milliseconds(self.lease_ttl));
        let mut version = cmd("GETRANGE");
        version.arg(&keys.entry).arg(codec::VERSION.start).arg(codec::VERSION.end - 1);
        let calls = [acquire, Call::command(&keys.entry, version)];
        let replies = self.small.run(AccessMode::Write, &calls).await.ok()?;
        let [owner, version] = <[_; 2]>::try_from(replies).ok()?;
        let (holder, expires_in_ms) = <(String, i64)>::from_redis_value(owner.ok()?).ok()?;
        let is_acquired = holder == token;
        let known = known.map(|entry| codec::version(&entry.seen)).unwrap_or_default();
        // An error if the key holds another Redis type.
        let has_other_entry = version.as_ref().is_ok_and(|version| text(version) != known);
        let was_vacant = version.is_ok_and(|version| version == Value::BulkString(Vec::new()));
        let lease = Lease { keys, history, token: holder, was_vacant, has_other_entry };
        if is_acquired {
            return Some(LeaseAttempt::Acquired(lease));
        }
        let expires_in = Duration::from_millis(u64::try_from(expires_in_ms).unwrap_or(0));
        let age = self.lease_ttl.saturating_sub(expires_in);
        let is_recent = self.upstream.log.knows_changes_since(BootInstant::now() - age);
        is_recent.then_some(LeaseAttempt::Held(lease))
    }

    /// Waits until `deadline` for the result of the replica that holds the lease. Entries that
    /// `accept` rejects are ignored. `None` if the deadline has passed, or Redis is unavailable.
    pub(super) async fn wait(
        &self,
        request: &Request,
        Lease { keys, history, token, .. }: &Lease,
        deadline: Instant,
        accept: impl Fn(&Arc<Entry>) -> bool,
    ) -> Option<LeaseOutcome> {
        self.metrics.count(CacheEvent::Waited);
        loop {
            timeout_at(deadline, sleep(LEASE_POLL_INTERVAL)).await.ok()?;
            let mut poll = cmd("MGET");
            poll.arg(&keys.entry).arg(&keys.outcome).arg(&keys.lease);
            let values = self.small.read(Call::command(&keys.entry, poll)).await.ok()?;
            let [entry, outcome, holder] = <[Value; 3]>::from_redis_value(values).ok()?;
            if let Some(entry) =
                self.decode(&keys.entry, *history, request, entry).await.filter(&accept)
            {
                return Some(LeaseOutcome::Entry(entry));
            }
            let marker = text(&outcome).strip_prefix(token.as_str());
            if let Some(outcome) = marker.and_then(|marker| self.parse_outcome(marker, *history)) {
                return Some(outcome);
            }
            if text(&holder) != token {
                return Some(LeaseOutcome::LeaseEnded);
            }
        }
    }

    /// Parses an outcome marker, without the lease's token at its start.
    fn parse_outcome(&self, marker: &str, history: u64) -> Option<LeaseOutcome> {
        let mut words = marker.trim_start().splitn(3, ' ');
        match (words.next()?, words.next(), words.next()) {
            (FAILED, None, None) => Some(LeaseOutcome::Failed(UpstreamError::Elsewhere)),
            (TIMED_OUT, None, None) => Some(LeaseOutcome::Failed(UpstreamError::Timeout)),
            (ABSENT, Some(version), Some(snapshot)) => {
                let seen = codec::stamp(version.as_bytes(), snapshot)?;
                let seen = self.upstream.stamp_of_shared(&seen, history);
                Some(seen.map_or(LeaseOutcome::LeaseEnded, LeaseOutcome::Absent))
            }
            _ => None,
        }
    }

    /// Publishes an entry if it has room, and releases the lease, in the background.
    pub(super) fn publish(
        self: &Arc<Self>,
        lease: Option<Lease>,
        request: &Request,
        entry: &Arc<Entry>,
        lifetimes: SharedLifetimes,
    ) {
        let (shared, request, entry) = (Arc::clone(self), request.clone(), Arc::clone(entry));
        self.in_background(async move {
            if shared.put(lease.as_ref(), &request, &entry, lifetimes).await.is_none() {
                shared.release(lease.as_ref(), None).await;
            }
        });
    }

    fn in_background(&self, publication: impl Future<Output = ()> + Send + 'static) {
        self.publications.spawn(contain(PUBLICATIONS, publication));
    }

    /// Publishes an entry if it has room, and releases the lease. `None` if it was not published.
    async fn put(
        &self,
        mut lease: Option<&Lease>,
        request: &Request,
        entry: &Entry,
        lifetimes: SharedLifetimes,
    ) -> Option<()> {
        let publishable = self.room.publishable();
        let (EntryKeys { entry: key, lease: lease_key, .. }, history) = self.keys(request)?;
        if !self.fits(publishable, lease, entry) || !entry.seen.is_publishable_in(history) {
            return None;
        }
        let (bytes, first) = (codec::encode(&key, entry), milliseconds(lifetimes.first));
        // A script costs Redis a third more than SET, because it copies its arguments.
        if let Some(vacant) = lease.take_if(|lease| lease.was_vacant) {
            let mut set = cmd("SET");
            set.arg(&key).arg(&bytes).arg("NX").arg("PX").arg(&first);
            let calls = vec![Call::command(&key, set), vacant.release_call()];
            let replies = self.write(&self.large, calls).await?;
            self.room.add(key.len() + bytes.len());
            if replies.first() != Some(&Ok(Value::Nil)) {
                return Some(());
            }
        }
        let put = Call::script_on(&PUT_IF_NEWER, [&key, &lease_key]);
        let put = put.arg(bytes).arg(transactions(&entry.seen));
        let new = if publishable == Publishable::Any { first } else { NOT_STORED.to_owned() };
        let put = put.arg(milliseconds(lifetimes.replacement)).arg(vec![codec::FORMAT]).arg(new);
        let put = put.arg(lease.map_or("", |lease| &lease.token));
        self.write(&self.large, vec![put]).await.map(drop)
    }

    /// Whether an entry is small enough and has room in Redis; counted if not.
    fn fits(&self, publishable: Publishable, lease: Option<&Lease>, entry: &Entry) -> bool {
        let is_new = lease.is_some_and(|lease| lease.was_vacant);
        if entry.body.len() as u64 > self.max_entry_bytes {
            self.metrics.count(CacheEvent::SharedTooLarge);
        } else if publishable == Publishable::Nothing
            || (is_new && publishable == Publishable::Replacements)
        {
            self.metrics.count(CacheEvent::SharedNoRoom);
        } else {
            return true;
        }
        false
    }

    /// Tells waiting replicas that the gene or domain does not exist, deletes an older entry, and
    /// releases the lease, in the background.
    pub(super) fn publish_absent(
        self: &Arc<Self>,
        lease: Option<Lease>,
        request: &Request,
        seen: ReadStamp,
    ) {
        let (shared, request) = (Arc::clone(self), request.clone());
        self.in_background(async move {
            let keys = shared.keys(&request);
            let may_publish = |(_, history): &(_, u64)| seen.is_publishable_in(*history);
            let Some((keys, _)) = keys.filter(may_publish) else {
                return shared.release(lease.as_ref(), None).await;
            };
            let delete = Call::script(&DELETE_IF_OLDER, &keys.entry).arg(transactions(&seen));
            let (version, snapshot) = (codec::version(&seen), codec::snapshot_text(&seen));
            let outcome = format!("{ABSENT} {version} {snapshot}");
            shared.finish(lease.as_ref(), vec![delete], Some(&outcome)).await;
        });
    }

    /// Releases the lease without a result. Waiting replicas fail with `error`; without one, one of
    /// them tries.
    pub(super) async fn release(&self, lease: Option<&Lease>, error: Option<&UpstreamError>) {
        let outcome = error.map(|error| match error {
            UpstreamError::Timeout => TIMED_OUT,
            _ => FAILED,
        });
        self.finish(lease, Vec::new(), outcome).await;
    }

    /// Sends `calls`, tells waiting replicas the outcome, and releases the lease.
    async fn finish(&self, lease: Option<&Lease>, mut calls: Vec<Call>, outcome: Option<&str>) {
        if let Some(lease @ Lease { keys, token, .. }) = lease {
            if let Some(outcome) = outcome {
                let mut marker = cmd("SET");
                marker.arg(&keys.outcome).arg(format!("{token} {outcome}"));
                marker.arg("PX").arg(milliseconds(OUTCOME_TTL));
                calls.push(Call::command(&keys.outcome, marker));
            }
            calls.push(lease.release_call());
        }
        self.write(&self.small, calls).await;
    }
}

impl Lease {
    fn release_call(&self) -> Call {
        Call::script(&DELETE_IF_EQUAL, &self.keys.lease).arg(self.token.as_bytes())
    }
}

fn text(value: &Value) -> &str {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        _ => "",
    }
}

/// A random token. If the system provides no randomness, two replicas may get the same one; then
/// both read the upstream.
fn random_token() -> String {
    let (a, b) = (getrandom::u64().unwrap_or_default(), getrandom::u64().unwrap_or_default());
    format!("{a:016x}{b:016x}")
}
